/** Cuts a stream of server-sent events into the data of its frames. No frame and no line can fill the memory. */

/** More of a frame is not kept: it is passed over, and counted. */
const frameBytesMax = 4 * 1024 * 1024

/** The data of one frame, or how large it was when that was too much. */
export type Frame = { data: string } | { bytes: number }

const lineFeed = 0x0a
const carriageReturn = 0x0d

export class SseFrames {
  /** Pieces of the line that has not ended. */
  #line: Buffer[] = []
  #lineBytes = 0
  #data: Buffer[] = []
  /** Of the frame so far, whether kept or not. */
  #frameBytes = 0
  #hasData = false

  /** The frames that end in this piece. A frame that the stream cuts off is none. */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = []
    let from = 0
    for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, from)) {
      this.#keep(chunk.subarray(from, end))
      from = end + 1
      const frame = this.#endLine()
      if (frame) frames.push(frame)
    }
    this.#keep(chunk.subarray(from))
    return frames
  }

  #keep(piece: Buffer): void {
    this.#frameBytes += piece.length
    this.#lineBytes += piece.length
    // A line of one byte may be the end of the frame.
    if (this.#frameBytes <= frameBytesMax || this.#lineBytes <= 1) this.#line.push(piece)
    else this.#drop()
  }

  #drop(): void {
    this.#line = []
    this.#data = []
  }

  #endLine(): Frame | null {
    const line = this.#line.length === 1 ? this.#line[0]! : Buffer.concat(this.#line)
    const isEmpty = this.#lineBytes === 0 || (this.#lineBytes === 1 && line[0] === carriageReturn)
    this.#line = []
    this.#lineBytes = 0
    if (isEmpty) return this.#endFrame()
    // What is too large counts as data: only its size is reported.
    if (this.#frameBytes > frameBytesMax) this.#hasData = true
    else this.#addLine(line)
    return null
  }

  #addLine(line: Buffer): void {
    if (line.subarray(0, 5).toString('latin1') !== 'data:') return
    const from = line[5] === 0x20 ? 6 : 5
    const to = line[line.length - 1] === carriageReturn ? line.length - 1 : line.length
    this.#hasData = true
    this.#data.push(line.subarray(from, to))
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
