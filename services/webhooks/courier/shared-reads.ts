/** What sockets read comes through one buffer: Node would otherwise take 64 KB for each read of a few hundred bytes. */

import type { OnReadOpts, Socket } from 'node:net'

const shared = Buffer.allocUnsafeSlow(64 * 1024)

/**
 * For the option `onread` of a connection. The callback runs at once after each read (Node's documentation of `net`,
 * "socket.connect(options)"), so that all sockets of a thread can share the buffer; what was read is copied out of it.
 */
export const sharedReads: OnReadOpts = {
  buffer: shared,
  callback(this: Socket, bytes: number): boolean {
    const chunk = Buffer.allocUnsafe(bytes)
    shared.copy(chunk, 0, 0, bytes)
    return this.push(chunk)
  },
}
