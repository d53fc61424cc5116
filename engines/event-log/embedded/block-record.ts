/**
 * A stored record as a view of the bytes that came from the file. Its parts are made only when they are asked for:
 * most never are.
 */

import type { StoredRecord } from '../port.ts'

/**
 * Numbers in front of a block's bytes, five a record: offset, timestamp, length of key, value and headers (-1 is
 * null).
 */
export const fields = 5

/** What key, value and headers of the record whose numbers begin at `field` weigh together. */
export function weightAt(numbers: Float64Array, field: number): number {
  return Math.max(numbers[field + 2]!, 0) + Math.max(numbers[field + 3]!, 0) + numbers[field + 4]!
}

export class BlockRecord implements StoredRecord {
  readonly partition: number
  readonly offset: number
  readonly #numbers: Float64Array
  readonly #block: Buffer
  /** Where its numbers begin, and its bytes: key, value, headers. */
  readonly #field: number
  readonly #at: number
  #key: Buffer | null | undefined
  #value: Buffer | null | undefined
  #headers: Record<string, string> | undefined

  constructor(
    partition: number,
    offset: number,
    numbers: Float64Array,
    block: Buffer,
    field: number,
    at: number,
  ) {
    this.partition = partition
    this.offset = offset
    this.#numbers = numbers
    this.#block = block
    this.#field = field
    this.#at = at
  }

  get timestamp(): number {
    return this.#numbers[this.#field + 1]!
  }

  get bytes(): number {
    return weightAt(this.#numbers, this.#field)
  }

  get key(): Buffer | null {
    if (this.#key === undefined) this.#key = this.#part(this.#at, this.#numbers[this.#field + 2]!)
    return this.#key
  }

  get value(): Buffer | null {
    if (this.#value === undefined) {
      this.#value = this.#part(this.#at + this.#keyBytes, this.#numbers[this.#field + 3]!)
    }
    return this.#value
  }

  get headers(): Record<string, string> {
    if (this.#headers === undefined) {
      const text = this.#block.toString('utf8', this.#headersAt, this.#end)
      this.#headers = text === '' ? {} : (JSON.parse(text) as Record<string, string>)
    }
    return this.#headers
  }

  headerBytes(name: string): Buffer | undefined {
    const found = textIn(this.#block, this.#headersAt, this.#end, name)
    if (found !== null) return found
    return Object.hasOwn(this.headers, name) ? Buffer.from(this.headers[name]!) : undefined
  }

  get #keyBytes(): number {
    return Math.max(this.#numbers[this.#field + 2]!, 0)
  }

  get #headersAt(): number {
    return this.#at + this.#keyBytes + Math.max(this.#numbers[this.#field + 3]!, 0)
  }

  get #end(): number {
    return this.#headersAt + this.#numbers[this.#field + 4]!
  }

  #part(at: number, length: number): Buffer | null {
    return length < 0 ? null : this.#block.subarray(at, at + length)
  }
}

const quote = 0x22
const backslash = 0x5c
const colon = 0x3a

/**
 * The bytes of one text in an object of texts as JSON.stringify writes it, without reading the rest; `name` is ASCII.
 * Undefined when it is not there, null where only a parser can tell (something before it is escaped).
 */
function textIn(json: Buffer, from: number, to: number, name: string): Buffer | null | undefined {
  let at = from + 1
  while (at < to && json[at] === quote) {
    const nameEnd = endOfText(json, at + 1, to)
    if (nameEnd < 0 || json[nameEnd + 1] !== colon || json[nameEnd + 2] !== quote) return null
    const textEnd = endOfText(json, nameEnd + 3, to)
    if (textEnd < 0) return null
    if (isText(json, at + 1, nameEnd, name)) return json.subarray(nameEnd + 3, textEnd)
    at = textEnd + 2
  }
  return undefined
}

/** Index of the closing quote; -1 when something is escaped before it. */
function endOfText(json: Buffer, from: number, to: number): number {
  for (let at = from; at < to; at++) {
    if (json[at] === quote) return at
    if (json[at] === backslash) return -1
  }
  return -1
}

function isText(bytes: Buffer, from: number, to: number, text: string): boolean {
  if (to - from !== text.length) return false
  for (let i = 0; i < text.length; i++) if (bytes[from + i] !== text.charCodeAt(i)) return false
  return true
}
