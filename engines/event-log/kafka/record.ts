/** Turns what a fetch brings, bytes or messages of kafkajs, into records of the port. */

import type { IHeaders, KafkaMessage } from 'kafkajs'
import type { StoredRecord } from '../port.ts'
import { Varints } from './varints.ts'

export function storedRecord(partition: number, message: KafkaMessage | FetchedRecord): StoredRecord {
  return message instanceof FetchedRecord ? message : new MessageRecord(partition, message)
}

/** A record as a view of the bytes of its fetch. Its parts are made only when they are asked for: most never are. */
export class FetchedRecord implements StoredRecord {
  readonly partition: number
  readonly offset: number
  readonly timestamp: number
  readonly #fetched: Buffer
  /** Where key and value end, and how long they are; -1: there is none. */
  readonly #keyTo: number
  readonly #keyBytes: number
  readonly #valueTo: number
  readonly #valueBytes: number
  readonly #end: number
  #key: Buffer | null | undefined
  #value: Buffer | null | undefined
  #headers: Record<string, string> | undefined

  /** The reader is at the length of the key; `end` is where the record ends. */
  constructor(partition: number, offset: number, timestamp: number, reader: Varints, end: number) {
    this.partition = partition
    this.offset = offset
    this.timestamp = timestamp
    this.#fetched = reader.buffer
    this.#keyBytes = reader.number()
    reader.skip(this.#keyBytes)
    this.#keyTo = reader.at
    this.#valueBytes = reader.number()
    reader.skip(this.#valueBytes)
    this.#valueTo = reader.at
    this.#end = end
  }

  get bytes(): number {
    return Math.max(0, this.#keyBytes) + Math.max(0, this.#valueBytes)
  }

  get key(): Buffer | null {
    if (this.#key === undefined) this.#key = this.#part(this.#keyTo, this.#keyBytes)
    return this.#key
  }

  get value(): Buffer | null {
    if (this.#value === undefined) this.#value = this.#part(this.#valueTo, this.#valueBytes)
    return this.#value
  }

  /** kafkajs asks; control records are never read by this class. */
  get isControlRecord(): boolean {
    return false
  }

  get headers(): Record<string, string> {
    this.#headers ??= this.#readHeaders()
    return this.#headers
  }

  headerBytes(name: string): Buffer | undefined {
    const reader = new Varints(this.#fetched, this.#valueTo, this.#end)
    let from = -1
    let to = -1
    for (let left = reader.number(); left > 0 && !reader.failed; left--) {
      const named = reader.skipsText(name)
      const length = reader.number()
      if (named) {
        from = reader.at
        to = from + Math.max(0, length)
      }
      reader.skip(length)
    }
    return from < 0 || reader.failed ? undefined : this.#fetched.subarray(from, to)
  }

  #part(to: number, length: number): Buffer | null {
    return length < 0 ? null : this.#fetched.subarray(to - length, to)
  }

  #readHeaders(): Record<string, string> {
    const texts: Record<string, string> = {}
    const reader = new Varints(this.#fetched, this.#valueTo, this.#end)
    for (let left = reader.number(); left > 0 && !reader.failed; left--) {
      const name = reader.bytes()?.toString() ?? ''
      texts[name] = reader.bytes()?.toString() ?? ''
    }
    return texts
  }
}

class MessageRecord implements StoredRecord {
  readonly partition: number
  readonly offset: number
  readonly timestamp: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly #raw: IHeaders
  #headers: Record<string, string> | undefined

  constructor(partition: number, message: KafkaMessage) {
    this.partition = partition
    this.offset = Number(message.offset)
    this.timestamp = Number(message.timestamp)
    this.key = message.key
    this.value = message.value
    this.#raw = message.headers ?? {}
  }

  get headers(): Record<string, string> {
    this.#headers ??= textsOf(this.#raw)
    return this.#headers
  }

  headerBytes(name: string): Buffer | undefined {
    if (!Object.hasOwn(this.#raw, name)) return undefined
    const last = lastOf(this.#raw[name])
    return Buffer.isBuffer(last) ? last : Buffer.from(last ?? '')
  }
}

function textsOf(raw: IHeaders): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const name in raw) texts[name] = lastOf(raw[name])?.toString() ?? ''
  return texts
}

/** Of a header that occurs several times the last one counts. */
function lastOf(value: IHeaders[string]): Buffer | string | undefined {
  return Array.isArray(value) ? value.at(-1) : value
}
