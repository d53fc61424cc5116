/** Turns stored records into messages. A record that cannot be decoded is at fault itself; a missing registry is waited for. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { describeError, isUnavailable } from '#lib/errors.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { Codec, Message } from '../messages.ts'
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

  async #decodeWhenBack(record: StoredRecord, first: Error): Promise<Decoded<S>> {
    const { breaker } = this.#host.group
    let error: unknown = first
    while (isUnavailable(error)) {
      breaker.trip('schema_registry', describeError(error), { probed: false })
      if (!(await this.#host.whenMayCall())) return null
      try {
        const message = await this.#codec.decode(this.#topic, record)
        breaker.callWorked()
        return message
      } catch (next) {
        error = next
      }
    }
    return new Undecodable(error)
  }
}
