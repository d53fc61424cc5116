/** Handlers of records that run as consumer spans of the traces that the records belong to. */

import { type Span, SpanKind } from '@opentelemetry/api'
import type { LaneOutcome } from '#lib/outcome.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { BatchOptions, ConsumerOptions, LaneOptions } from '../../consume/types.ts'
import { headerNames } from '../../publish/messages.ts'
import { endSpan, followedFault, forgetSpan, isSampled, type Tracing } from './tracing.ts'

/** Traces of one batch that get a span; the records of others are handled all the same. */
const tracesMax = 64

interface TracedRecord {
  partition: number
  offset: number
  headers: Record<string, string>
}

/**
 * A batch holds records of many traces, and a span has one parent. The semantic conventions of messaging offer one span
 * with a link to each record; but then no trace would lead to its effect. So each trace of the batch gets a consumer
 * span of its own, a child of the span that sent its records, with the time of the whole batch. What the handler does
 * once for all of them, such as a call of the engine, is a child of the first and is linked to the others.
 */
export function tracedBatches<S extends SchemaName>(
  options: BatchOptions<S>,
  tracing: Tracing,
  system: string,
): BatchOptions<S> {
  return {
    ...options,
    async handle(messages, context) {
      const traces = [...indexesByTrace(messages)]
      const spans = traces.map(([traceparent, indexes]) =>
        begin(tracing, system, options, traceparent, messages[indexes[0]!]!, indexes.length),
      )
      const handled = tracing.run(spans, () => options.handle(messages, context))
      const outcomes = await followedFault(spans, handled)
      for (const [n, [, indexes]] of traces.entries()) {
        const failed = indexes.find((index) => outcomes[index]?.kind !== 'done')
        endSpan(spans[n]!, failed === undefined ? undefined : outcomes[failed]?.kind)
      }
      return outcomes
    },
  }
}

/** A record by itself has one parent: the span that sent it. Each try is a span of its own. */
export function tracedLanes<S extends SchemaName>(
  options: LaneOptions<S>,
  tracing: Tracing,
  system: string,
): LaneOptions<S> {
  return {
    ...options,
    async handle(message, context) {
      const traceparent = message.headers[headerNames.traceparent]
      if (!isSampled(traceparent)) return tracing.run([], () => options.handle(message, context))
      const span = begin(tracing, system, options, traceparent, message, 1)
      const handled = tracing.run([span], () => options.handle(message, context))
      const outcome = await followedFault([span], handled)
      conclude(span, outcome)
      return outcome
    },
  }
}

/** What only waits its turn is looked at again and again: that is no work. */
function conclude(span: Span, outcome: LaneOutcome): void {
  if (outcome.kind === 'done') endSpan(span)
  else if (outcome.kind === 'hold' && !outcome.tried) forgetSpan(span, 'unused')
  else endSpan(span, outcome.kind)
}

function indexesByTrace(messages: readonly TracedRecord[]): Map<string, number[]> {
  const found = new Map<string, number[]>()
  for (const [index, { headers }] of messages.entries()) {
    const traceparent = headers[headerNames.traceparent]
    if (!isSampled(traceparent)) continue
    const indexes = found.get(traceparent)
    if (indexes) indexes.push(index)
    else if (found.size < tracesMax) found.set(traceparent, [index])
  }
  return found
}

function begin(
  tracing: Tracing,
  system: string,
  { topic, group }: Pick<ConsumerOptions<SchemaName>, 'topic' | 'group'>,
  traceparent: string,
  first: TracedRecord,
  records: number,
): Span {
  const { name } = topic
  return tracing.begin(`process ${name}`, {
    kind: SpanKind.CONSUMER,
    traceparent,
    attributes: {
      'messaging.system': system,
      'messaging.operation.type': 'process',
      'messaging.operation.name': 'process',
      'messaging.destination.name': name,
      'messaging.destination.partition.id': String(first.partition),
      'messaging.consumer.group.name': group,
      'messaging.batch.message_count': records,
      'messaging.kafka.offset': first.offset,
    },
  })
}
