/** Connections that send a small request in one piece: one buffer costs less than a list of them, and TLS makes one record of it. */

import type { Socket } from 'node:net'
import { buildConnector } from 'undici'

/** Larger writes go out as they are: copying them would cost more than it spares. */
const joinedBytesMax = 16 * 1024
/** What the last write was joined in: most are through at once, and the next one takes the same bytes. */
let spare: Buffer | null = null

interface Piece {
  chunk: Buffer | string
  encoding: BufferEncoding
}

/** undici's own connector; what is written to its sockets between cork and uncork leaves as one write. */
export function joiningConnector(options: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector(options)
  return (to, done) =>
    connect(to, (...[error, socket]: Parameters<buildConnector.Callback>) => {
      if (error) return done(error, null)
      joinWrites(socket)
      done(null, socket)
    })
}

/** `_writev` is where a Writable hands over what it gathered (Node's documentation, "Implementing a writable stream"). */
export function joinWrites(socket: Socket): void {
  const apart = socket._writev?.bind(socket)
  if (!apart) return
  socket._writev = (pieces: Piece[], done) => {
    const bytes = bytesOf(pieces)
    if (bytes > joinedBytesMax) return apart(pieces, done)
    const whole = spare ?? Buffer.allocUnsafeSlow(joinedBytesMax)
    spare = null
    fill(whole, pieces)
    socket._write(whole.subarray(0, bytes), 'buffer' as BufferEncoding, (error) => {
      // Until now the bytes were the socket's.
      spare = whole
      done(error)
    })
  }
}

/** Infinite where a text has to be encoded before anyone knows. */
function bytesOf(pieces: Piece[]): number {
  let bytes = 0
  for (const { chunk, encoding } of pieces) {
    bytes += typeof chunk !== 'string' || encoding === 'latin1' ? chunk.length : Number.POSITIVE_INFINITY
  }
  return bytes
}

function fill(whole: Buffer, pieces: Piece[]): void {
  let at = 0
  for (const { chunk } of pieces) {
    if (typeof chunk === 'string') whole.write(chunk, at, 'latin1')
    else whole.set(chunk, at)
    at += chunk.length
  }
}
