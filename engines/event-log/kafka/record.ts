/** A record as the port has it, made of what @platformatic/kafka has read. */

import type { StoredRecord } from '../port.ts'

/** Name and value, in the order of the record; a name may occur several times. */
export type RawHeaders = readonly (readonly [Buffer | null, Buffer | null])[]

/** The texts of the headers are made only when they are asked for: most never are. */
export class FetchedRecord implements StoredRecord {
  readonly partition: number
  readonly offset: number
  readonly timestamp: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly #raw: RawHeaders
  #headers: Record<string, string> | undefined

  constructor(
    partition: number,
    offset: number,
    timestamp: number,
    key: Buffer | null,
    value: Buffer | null,
    headers: RawHeaders,
  ) {
    this.partition = partition
    this.offset = offset
    this.timestamp = timestamp
    this.key = key
    this.value = value
    this.#raw = headers
  }

  /** Of a header that occurs several times the last one counts. */
  get headers(): Record<string, string> {
    if (this.#headers === undefined) {
      const texts: Record<string, string> = {}
      for (const [name, value] of this.#raw) texts[name?.toString() ?? ''] = value?.toString() ?? ''
      this.#headers = texts
    }
    return this.#headers
  }

  headerBytes(name: string): Buffer | undefined {
    const found = this.#raw.findLast(
      ([raw]) => raw?.length === name.length && raw.toString('latin1') === name,
    )
    return found && (found[1] ?? Buffer.alloc(0))
  }
}
