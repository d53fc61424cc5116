/** The headers of records, by their names on the wire, and what each of them says. */

export const recordHeaders = {
  'event-id': 'unique for the event, the same in every copy of its record',
  producer:
    'the services of the process that wrote it, joined by `+`; `flotilla` where it runs all, `flotilla-command` for a command',
  'occurred-at':
    'when it happened, by the clock of the process or database that noted it: ISO 8601, UTC, milliseconds',
  agent: 'the agent, or the person by uid, whose doing it is',
  'request-id': 'the `X-Request-Id` of the request that caused it',
  traceparent: 'the W3C trace context of that request; with tracing on, of the span that sent the record',
  operation: 'the operation number that all records of one request share',
  'replayed-from': 'the dead letter that an operator put back as this record, which is a new event',
} as const

export type HeaderName = keyof typeof recordHeaders

/** Every record has them, but for the fences of the Kafka driver. */
export const commonHeaders = ['event-id', 'producer', 'occurred-at'] as const satisfies HeaderName[]
