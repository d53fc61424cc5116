/**
 * Ends a connection so that the other side sees the answer. To close a socket with unread bytes resets it, and the
 * answer is lost on the way: so a bounded rest is read and dropped first.
 */

import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'

/** Whether the request announces a body. */
export function hasBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/**
 * Call it before a refusal is sent. A short rest of the body is dropped and the connection goes on; with a longer one,
 * or with `closing`, the answer says `Connection: close` and the connection lingers.
 */
export function leaveBodyUnread(request: FastifyRequest, reply: FastifyReply, closing: boolean): void {
  const { raw } = request
  if (raw.complete || !hasBody(raw)) return
  const announced = Number(raw.headers['content-length'] ?? Number.POSITIVE_INFINITY)
  const goesOn =
    !closing &&
    announced <= budgets.http.droppedBytesMax &&
    reply.raw.shouldKeepAlive &&
    reply.getHeader('connection') !== 'close' &&
    raw.headers.expect === undefined
  if (goesOn) return
  reply.header('connection', 'close')
  const { socket } = raw
  // Node calls this once the answer is written.
  if (socket instanceof Socket) socket.destroySoon = () => linger(socket)
}

/** Sends `last` and closes the writing side; reads on and drops the input, for a bounded while; then ends it. */
export function linger(socket: Socket, last = ''): void {
  let dropped = 0
  // The HTTP parser lets go of the socket: further bytes are no request.
  socket.removeAllListeners('data')
  socket.on('data', (piece: Buffer) => {
    dropped += piece.length
    if (dropped > budgets.http.lingerBytesMax) socket.destroy()
  })
  const giveUp = setTimeout(() => socket.destroy(), deadlines.request.lingerMs)
  giveUp.unref()
  socket.once('end', () => socket.destroy())
  socket.once('close', () => clearTimeout(giveUp))
  socket.end(last)
  socket.resume()
}
