/**
 * Turns stored records into messages. Bytes that cannot be parsed are the record's own fault; a registry that is away, or
 * does not know a schema id at the moment, is waited for: nothing is parked for it.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError, isUnavailable } from '#lib/errors.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { Codec, Message } from '../publish/messages.ts'
import { untilDoneWaitMsMax } from './limits.ts'
import type { CallPermission } from './partition-host.ts'

/** Why a record has no message. */
export class Undecodable {
  readonly reason: string

  constructor(error: unknown) {
    this.reason = `it cannot be decoded: ${describeError(error)}`
  }
}

/** null: no call will start any more, and the registry is still away. */
export type Decoded<S extends SchemaName> = Message<Schemas[S]> | Undecodable | null

export class RecordDecoder<S extends SchemaName> {
  readonly #codec: Codec
  readonly #topic: Topic<S>
  readonly #host: CallPermission

  constructor(codec: Codec, topic: Topic<S>, host: CallPermission) {
    this.#codec = codec
    this.#topic = topic
    this.#host = host
  }

  /** At once when the codec answers at once, which it does for all but the first records of a schema. Never rejects. */
  decode(record: StoredRecord): Decoded<S> | Promise<Decoded<S>> {
    try {
      const message = this.#codec.decode(this.#topic, record)
      return message instanceof Promise ? message.catch((error) => this.#failed(record, error)) : message
    } catch (error) {
      return this.#failed(record, error)
    }
  }

  #failed(record: StoredRecord, error: unknown): Undecodable | Promise<Decoded<S>> {
    return isUnavailable(error) ? this.#decodeWhenBack(record, error) : new Undecodable(error)
  }

  /** The partition waits by itself: others may hold nothing but records of known schemas. */
  async #decodeWhenBack(record: StoredRecord, first: Error): Promise<Decoded<S>> {
    const { ending, group } = this.#host
    const { partition, offset } = record
    let error: unknown = first
    for (let n = 0; isUnavailable(error); n++) {
      group.log.warn({ partition, offset, reason: error.message }, 'waiting for the schema of a record')
      await sleep(backoffMs(n, { baseMs: 200, maxMs: untilDoneWaitMsMax }), ending)
      if (ending.aborted) return null
      try {
        const message = await this.#codec.decode(this.#topic, record)
        return (await this.#host.whenMayCall()) ? message : null
      } catch (next) {
        error = next
      }
    }
    return new Undecodable(error)
  }
}
