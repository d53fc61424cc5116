/** Reads the parts of a Kafka record within bounds: zigzag varints, and bytes that follow their length. */

/** Numbers are exact below 2^53; what runs over the end, or is longer, makes the reader `failed` and reads as 0. */
export class Varints {
  readonly buffer: Buffer
  at: number
  failed = false
  readonly #end: number

  constructor(buffer: Buffer, at: number, end: number) {
    this.buffer = buffer
    this.at = at
    this.#end = end
  }

  number(): number {
    if (this.at >= this.#end) return this.#fail()
    const first = this.buffer[this.at++]!
    // One byte is by far the most frequent length.
    return first < 0x80 ? (first >>> 1) ^ -(first & 1) : this.#longer(first & 0x7f)
  }

  /** The bytes behind their length; null for the length -1. */
  bytes(): Buffer | null {
    const length = this.number()
    const from = this.at
    if (!this.skip(length)) return null
    return length < 0 ? null : this.buffer.subarray(from, this.at)
  }

  /** Goes on behind `length` bytes; false when there are not as many. */
  skip(length: number): boolean {
    if (length > this.#end - this.at) {
      this.#fail()
      return false
    }
    if (length > 0) this.at += length
    return true
  }

  /** Goes on behind a text; true when it was this one, which is ASCII. */
  skipsText(text: string): boolean {
    const length = this.number()
    const from = this.at
    if (!this.skip(length) || length !== text.length) return false
    for (let i = 0; i < length; i++) if (this.buffer[from + i] !== text.charCodeAt(i)) return false
    return true
  }

  #longer(first: number): number {
    let value = first
    for (let scale = 0x80; scale < 2 ** 49; scale *= 0x80) {
      if (this.at >= this.#end) return this.#fail()
      const byte = this.buffer[this.at++]!
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value % 2 === 0 ? value / 2 : -(value + 1) / 2
    }
    return this.#fail()
  }

  #fail(): number {
    this.failed = true
    this.at = this.#end
    return 0
  }
}
