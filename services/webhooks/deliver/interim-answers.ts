/**
 * Takes interim answers (1xx) out of what a target sends. Servers may send them unasked, and a client reads past them (RFC
 * 9110, 15.2); undici's parser takes `100 Continue` for a fault.
 */

import type { Socket } from 'node:net'
import { buildConnector } from 'undici'

/** More than that before an answer is none: it is left to the parser, which refuses it. */
const interimBytesMax = 16 * 1024
const interim = 'HTTP/1.1 100'

export interface AnswersConnector {
  /** For undici's `connect`: as `buildConnector` makes it. */
  connect: buildConnector.connector
  /** A request is about to be sent: the next bytes begin with a status line. */
  begin(): void
}

/** Connector for a client with one connection, and one request at a time. */
export function connectPastInterim(options: buildConnector.BuildOptions): AnswersConnector {
  const connect = buildConnector(options)
  let filter = new InterimFilter()
  return {
    connect(given, done) {
      connect(given, (...[error, socket]) => {
        if (error) return done(error, null)
        filter = new InterimFilter()
        readThrough(socket, filter)
        done(null, socket)
      })
    },
    begin: () => filter.begin(),
  }
}

/** The socket is ours: whoever reads from it gets what the filter leaves. */
function readThrough(socket: Socket, filter: InterimFilter): void {
  const read = socket.read.bind(socket)
  socket.read = (size?: number) => {
    for (;;) {
      const chunk: Buffer | null = read(size)
      const rest = chunk && filter.take(chunk)
      if (chunk === null || rest !== null) return rest
    }
  }
}

class InterimFilter {
  #isAtHead = true
  /** The beginning of a head that is not decided. */
  #held: Buffer | null = null
  #bytes = 0

  begin(): void {
    this.#isAtHead = true
    this.#bytes = 0
  }

  /** The rest of the chunk behind the bytes held before; null while there is nothing to pass on. */
  take(chunk: Buffer): Buffer | null {
    if (!this.#isAtHead) return chunk
    let bytes = this.#held === null ? chunk : Buffer.concat([this.#held, chunk])
    this.#held = null
    for (;;) {
      const end = interimEnd(bytes)
      if (end === 0 || this.#bytes + (end ?? bytes.length) > interimBytesMax) {
        this.#isAtHead = false
        return bytes
      }
      if (end === null) {
        this.#held = bytes
        return null
      }
      this.#bytes += end
      bytes = bytes.subarray(end)
    }
  }
}

/** Where the interim answer at the beginning ends; 0 where there is none, null while that is not known. */
function interimEnd(bytes: Buffer): number | null {
  const status = bytes.toString('latin1', 0, interim.length)
  // Bytes to come may still make it one.
  const whole = status + interim.slice(status.length)
  if (!/^HTTP\/1\.\d 1\d\d$/.test(whole) || whole.endsWith('101')) return 0
  if (status.length < interim.length) return null
  const end = bytes.indexOf('\r\n\r\n')
  return end < 0 ? null : end + 4
}
