/** Collects numbers and bytes in one stretch of memory that grows. */

export class ByteWriter {
  bytes: Buffer
  length = 0

  constructor(capacity = 1 << 12) {
    this.bytes = Buffer.allocUnsafe(capacity)
  }

  written(): Buffer {
    return this.bytes.subarray(0, this.length)
  }

  reserve(count: number): void {
    if (this.length + count <= this.bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.length + count))
    larger.set(this.written())
    this.bytes = larger
  }

  u8(value: number): void {
    this.reserve(1)
    this.bytes[this.length++] = value
  }

  u16(value: number): void {
    this.reserve(2)
    this.length = this.bytes.writeUInt16LE(value, this.length)
  }

  u32(value: number): void {
    this.reserve(4)
    this.length = this.bytes.writeUInt32LE(value, this.length)
  }

  /** Seven bits a byte, lowest first, the eighth says that more follow; up to 2^49. */
  varint(value: number): void {
    this.reserve(7)
    let rest = value
    while (rest >= 0x80) {
      this.bytes[this.length++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    this.bytes[this.length++] = rest
  }

  /** Each character is one byte. */
  latin1(text: string): void {
    this.reserve(text.length)
    this.length += this.bytes.write(text, this.length, 'latin1')
  }

  append(bytes: Uint8Array): void {
    this.reserve(bytes.length)
    this.bytes.set(bytes, this.length)
    this.length += bytes.length
  }
}
