/** A publisher that begins a producer span for what it sends, and hands the span on in the records' headers. */

import { type Span, SpanKind } from '@opentelemetry/api'
import type { SchemaName, Topic } from '#topics/topic.ts'
import { headerNames, type OutgoingMessage, type Position, type Publisher } from '../../publish/messages.ts'
import { followed, isSampled, type Tracing, traceparentOf } from './tracing.ts'

type Publishing = Pick<Publisher, 'publish' | 'batch'>

/**
 * Only messages that carry a traceparent are traced: what is written for nobody in particular, as progress, has none, and
 * gets none here.
 */
export function tracedPublisher(publisher: Publisher, tracing: Tracing, system: string): Publisher {
  return {
    ...publisher,
    ...traced(publisher, tracing, system),
    async fenced(name) {
      const fenced = await publisher.fenced(name)
      return { ...traced(fenced, tracing, system), close: () => fenced.close() }
    },
  }
}

function traced(publisher: Publishing, tracing: Tracing, system: string): Publishing {
  return {
    publish(topic, messages, options) {
      const sends = new Sends(tracing, system, topic)
      const marked = messages.map((message) => sends.mark(message))
      return sends.follow(publisher.publish(topic, marked, options))
    },
    batch(topic) {
      const batch = publisher.batch(topic)
      const sends = new Sends(tracing, system, topic)
      return {
        get size() {
          return batch.size
        },
        add: (message) => batch.add(sends.mark(message)),
        // When it is published again after a fault, its spans have ended already: they say how the first time went.
        publish: (options) => sends.follow(batch.publish(options)),
      }
    },
  }
}

/**
 * The spans of one publish: one for all messages of a trace, as the semantic conventions of messaging have it where
 * messages are sent together. Its context goes into the header of each of them.
 */
class Sends {
  readonly #tracing: Tracing
  readonly #system: string
  readonly #topic: Topic<SchemaName>
  /** By the traceparent that the messages came with. */
  readonly #spans = new Map<string, { span: Span; messages: number }>()

  constructor(tracing: Tracing, system: string, topic: Topic<SchemaName>) {
    this.#tracing = tracing
    this.#system = system
    this.#topic = topic
  }

  mark<K, V>(message: OutgoingMessage<K, V>): OutgoingMessage<K, V> {
    const given = message.headers?.[headerNames.traceparent]
    if (!isSampled(given)) return message
    const send = this.#spans.get(given) ?? { span: this.#begin(given), messages: 0 }
    this.#spans.set(given, send)
    send.messages++
    const traceparent = traceparentOf(send.span) ?? given
    return { ...message, headers: { ...message.headers, [headerNames.traceparent]: traceparent } }
  }

  follow(published: Promise<Position[]>): Promise<Position[]> {
    if (this.#spans.size === 0) return published
    const sends = [...this.#spans.values()]
    for (const { span, messages } of sends) span.setAttribute('messaging.batch.message_count', messages)
    return followed(
      sends.map(({ span }) => span),
      published,
    )
  }

  #begin(traceparent: string): Span {
    const { name } = this.#topic
    return this.#tracing.begin(`send ${name}`, {
      kind: SpanKind.PRODUCER,
      traceparent: this.#tracing.nearest(traceparent),
      attributes: {
        'messaging.system': this.#system,
        'messaging.operation.type': 'send',
        'messaging.operation.name': 'send',
        'messaging.destination.name': name,
      },
    })
  }
}
