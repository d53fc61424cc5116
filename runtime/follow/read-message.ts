/** Decodes a record whatever state the registry is in: what cannot be decoded is said, and what must wait waits. */

import type { Logger } from 'pino'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError, isUnavailable, whyWaiting } from '#lib/errors.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { Codec, Message } from '../publish/messages.ts'

const retryBackoff = { baseMs: 100, maxMs: 5_000 }

/** `fault`: why it cannot be decoded. Neither of them: the signal aborted while the registry was away. */
export interface ReadMessage<V> {
  message?: Message<V>
  fault?: string
}

/** At once where the schema is known. While the registry is away it is asked again until the signal aborts. */
export function readMessage<S extends SchemaName>(
  { codec, log }: { codec: Codec; log: Logger },
  topic: Topic<S>,
  record: StoredRecord,
  signal: AbortSignal,
): ReadMessage<Schemas[S]> | Promise<ReadMessage<Schemas[S]>> {
  async function retry(first: () => Promise<Message<Schemas[S]>>): Promise<ReadMessage<Schemas[S]>> {
    let read = first
    for (let failures = 0; ; failures++) {
      try {
        return { message: await read() }
      } catch (error) {
        if (!isUnavailable(error)) return { fault: describeError(error) }
        if (signal.aborted) return {}
        if (failures === 0) log.warn({ topic: topic.name, ...whyWaiting(error) }, 'follow.waiting')
        await sleep(backoffMs(failures, retryBackoff), signal)
        read = async () => codec.decode(topic, record)
      }
    }
  }
  try {
    const message = codec.decode(topic, record)
    return message instanceof Promise ? retry(() => message) : { message }
  } catch (error) {
    return retry(() => Promise.reject(error))
  }
}
