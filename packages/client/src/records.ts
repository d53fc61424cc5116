/** The records of a topic over the main API: a stream that survives breaks, or the present records, page by page. */

import { pauseBetween, readEvents, refuseEnd } from './events.ts'
import { headerOf, signalOf } from './hub.ts'
import { pathPart } from './path-part.ts'
import { isAway, ProblemError } from './problem-error.ts'
import type { Answer, Call } from './transport.ts'
import type { JsonValue } from './types.ts'

export interface TopicRecord<V = JsonValue> {
  /** Behind this record: keep it with what you made of the record, and begin there the next time. */
  position: string
  partition: number
  /** Rises within the partition, not always by one. */
  offset: number
  timestamp: string
  key: string | null
  headers: Record<string, string>
  /** null is a tombstone: the key is deleted. */
  value: V | null
  /** Why the value could not be decoded. */
  fault?: string
}

export interface RecordsOptions {
  /** `beginning` (default), `end`, or the `position` of the last record that was worked on. */
  from?: string
  /** false: ends with the last present record. */
  follow?: boolean
  /** How long a platform that is away is asked again. Default 60,000. */
  awayMs?: number
  signal?: AbortSignal
}

/** Sends calls with a credential to the main API. */
export interface RecordCalls {
  respond<T>(call: Call): Promise<Answer<T>>
  stream(call: Call): Promise<AsyncIterable<Uint8Array>>
}

const awayMsDefault = 60_000
const pageLimit = '1000'
/** A page says of each record where it lies, not which position is behind it. */
type PagedRecord<V> = Omit<TopicRecord<V>, 'position'>

/**
 * Ends when the signal aborts. Throws ProblemError: `position_expired` where the log does not hold the position (its
 * `members.earliest` is the oldest that it holds), and what refuses the caller.
 */
export function recordsOver<V = JsonValue>(
  calls: RecordCalls,
  topic: string,
  { follow = true, ...options }: RecordsOptions = {},
): AsyncGenerator<TopicRecord<V>> {
  const path = `log/topics/${pathPart(topic)}/records`
  return follow ? followed<V>(calls, path, options) : present<V>(calls, path, options)
}

async function* followed<V>(
  calls: RecordCalls,
  path: string,
  { from, awayMs = awayMsDefault, signal }: RecordsOptions,
): AsyncGenerator<TopicRecord<V>> {
  let position: string | undefined
  let seenAt = performance.now()
  while (!signal?.aborted) {
    const open = () =>
      calls.stream({
        method: 'GET',
        path,
        query: { from: position === undefined ? from : undefined },
        headers: { accept: 'text/event-stream', ...headerOf('last-event-id', position) },
        repeatable: true,
        ...signalOf({ signal }),
      })
    const body = await patiently(open, () => seenAt + awayMs, signal)
    if (body === undefined) return
    for await (const { event, id, data } of readEvents(body)) {
      seenAt = performance.now()
      position = id ?? position
      if (event === 'end') refuseEnd(data)
      if (event !== 'message') continue
      yield { position: id!, ...(JSON.parse(data) as PagedRecord<V>) }
      if (signal?.aborted) return
    }
    await pauseBetween(signal)
  }
}

async function* present<V>(
  calls: RecordCalls,
  path: string,
  { from = 'beginning', awayMs = awayMsDefault, signal }: RecordsOptions,
): AsyncGenerator<TopicRecord<V>> {
  let next = from
  for (;;) {
    const begunAt = performance.now()
    const ask = () =>
      calls.respond<{ records: PagedRecord<V>[]; next: string }>({
        method: 'GET',
        path,
        query: { from: next, limit: pageLimit },
        repeatable: true,
        ...signalOf({ signal }),
      })
    const page = await patiently(ask, () => begunAt + awayMs, signal)
    if (page === undefined || page.data.records.length === 0) return
    // Within a page the position is that of its beginning, moved on record by record.
    const places = placesOf(next)
    for (const record of page.data.records) {
      places.next.set(record.partition, record.offset + 1)
      yield { position: places.text(page.data.next), ...record }
      if (signal?.aborted) return
    }
    next = page.data.next
  }
}

/** `beginning` and `end` name no places: a partition that was not read yet begins at its first record then, too. */
function placesOf(position: string) {
  const named = position.includes(':') ? position.slice(position.indexOf('/') + 1).split(',') : []
  const next = new Map(named.map((place) => place.split(':').map(Number) as [number, number]))
  return {
    next,
    /** `whole`: of the same topic, with its epoch in front where it has one. */
    text(whole: string): string {
      const epoch = whole.includes('/') ? whole.slice(0, whole.indexOf('/') + 1) : ''
      return epoch + [...next].map(([partition, offset]) => `${partition}:${offset}`).join(',')
    },
  }
}

/** A platform that is away is asked again until then; undefined when the signal aborted meanwhile. */
async function patiently<T>(
  call: () => Promise<T>,
  until: () => number,
  signal: AbortSignal | undefined,
): Promise<T | undefined> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (signal?.aborted) return undefined
      if (!isPassing(error) || performance.now() > until()) throw error
    }
    await pauseBetween(signal)
    if (signal?.aborted) return undefined
  }
}

/** Places of streams that broke are given back after a moment. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof ProblemError)) return false
  return isAway(error) || error.code === 'too_many_streams'
}
