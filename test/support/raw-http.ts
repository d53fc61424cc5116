/** Speaks to an HTTP server by hand: what no client of good manners sends. */

import { connect, type Socket } from 'node:net'

export interface RawConnection {
  socket: Socket
  /** All that came so far. */
  text(): string
  /** Resolves with all that came once `wanted` is part of it; rejects when the connection ends before. */
  until(wanted: string | RegExp): Promise<string>
  /** Resolves with all that came when the connection is gone. */
  ended: Promise<string>
}

/** Connects, and writes `first`. */
export async function rawConnection(port: number, first = '', host = '127.0.0.1'): Promise<RawConnection> {
  const socket = connect({ port, host, allowHalfOpen: true })
  let text = ''
  const watchers = new Set<() => void>()
  const wake = () => {
    for (const watcher of watchers) watcher()
  }
  socket.setEncoding('latin1')
  socket.on('data', (piece) => {
    text += piece
    wake()
  })
  // A reset shows in the missing part of the answer.
  socket.on('error', () => {})
  socket.on('end', () => socket.end())
  const ended = new Promise<string>((resolve) => socket.once('close', () => resolve(text)))
  await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve))
  if (first !== '') socket.write(first)
  return {
    socket,
    text: () => text,
    ended,
    until: (wanted) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (typeof wanted === 'string' ? text.includes(wanted) : wanted.test(text))
            done(() => resolve(text))
          else if (socket.closed) done(() => reject(new Error(`the connection ended with ${text}`)))
        }
        const done = (then: () => void) => {
          watchers.delete(look)
          then()
        }
        watchers.add(look)
        socket.once('close', look)
        look()
      }),
  }
}

/** Writes all of it before anything is read, as simple clients do. Resolves when the other side took it or is gone. */
export function writeAll(socket: Socket, bytes: string | Buffer): Promise<void> {
  return new Promise((resolve) => {
    socket.once('close', () => resolve())
    socket.write(bytes, () => resolve())
  })
}
