/**
 * Cuts a stream of server-sent events into the data of its frames, as the HTML standard reads them: lines end with CR, LF or
 * both, and a byte order mark in front is none of the data. No frame and no line can fill the memory.
 */

/** More of a frame is not kept: it is passed over, and counted. */
const frameBytesMax = 4 * 1024 * 1024

/** The data of one frame, or how large it was when that was too much. */
type Frame = { data: string } | { bytes: number }

const lineFeed = 0x0a
const carriageReturn = 0x0d
const comment = 0x3a
const byteOrderMark = '\u00ef\u00bb\u00bf'

export class SseFrames {
  /** Pieces of the line that has not ended. */
  #line: Buffer[] = []
  #lineBytes = 0
  #data: Buffer[] = []
  /** Size of the frame so far, kept or not. */
  #frameBytes = 0
  #hasData = false
  #isFirstLine = true
  /** The last byte was a CR, whose line has ended: an LF behind it belongs to it. */
  #afterReturn = false

  /** The frames that end in this piece. A frame that the stream cuts off is none. */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = []
    let from = this.#afterReturn && chunk[0] === lineFeed ? 1 : 0
    if (chunk.length > 0) this.#afterReturn = false
    let feed = chunk.indexOf(lineFeed, from)
    let carriage = chunk.indexOf(carriageReturn, from)
    while (feed >= 0 || carriage >= 0) {
      const isReturn = feed < 0 || (carriage >= 0 && carriage < feed)
      const end = isReturn ? carriage : feed
      this.#keep(chunk.subarray(from, end))
      from = end + 1
      if (isReturn && chunk[from] === lineFeed) from++
      this.#afterReturn = isReturn && end + 1 === chunk.length
      const frame = this.#endLine()
      if (frame) frames.push(frame)
      if (feed >= 0 && feed < from) feed = chunk.indexOf(lineFeed, from)
      if (isReturn) carriage = chunk.indexOf(carriageReturn, from)
    }
    this.#keep(chunk.subarray(from))
    return frames
  }

  /** The stream ended here: whether it did so within a frame, which is lost then. */
  get isCut(): boolean {
    const first = this.#line.find(({ length }) => length > 0)?.[0]
    return this.#hasData || (this.#lineBytes > 0 && first !== comment)
  }

  #keep(piece: Buffer): void {
    this.#frameBytes += piece.length
    this.#lineBytes += piece.length
    if (this.#frameBytes <= frameBytesMax) this.#line.push(piece)
    else this.#drop()
  }

  #drop(): void {
    this.#line = []
    this.#data = []
  }

  #endLine(): Frame | null {
    let line = this.#line.length === 1 ? this.#line[0]! : Buffer.concat(this.#line)
    let bytes = this.#lineBytes
    this.#line = []
    this.#lineBytes = 0
    if (this.#isFirstLine && line.toString('latin1', 0, 3) === byteOrderMark) {
      line = line.subarray(3)
      bytes -= 3
    }
    this.#isFirstLine = false
    if (bytes === 0) return this.#endFrame()
    // A frame that is too large counts as data: only its size is reported.
    if (this.#frameBytes > frameBytesMax) this.#hasData = true
    else this.#addLine(line)
    return null
  }

  #addLine(line: Buffer): void {
    if (line.subarray(0, 5).toString('latin1') !== 'data:') return
    const from = line[5] === 0x20 ? 6 : 5
    this.#hasData = true
    this.#data.push(line.subarray(from))
  }

  #endFrame(): Frame | null {
    const [data, bytes, hasData] = [this.#data, this.#frameBytes, this.#hasData]
    this.#data = []
    this.#frameBytes = 0
    this.#hasData = false
    if (!hasData) return null
    if (bytes > frameBytesMax) return { bytes }
    return {
      data:
        data.length === 1 ? data[0]!.toString('utf8') : data.map((line) => line.toString('utf8')).join('\n'),
    }
  }
}
