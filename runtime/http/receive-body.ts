/** Receives a big body, which must arrive with a least pace, into one piece of memory of its own, filled as bytes arrive. */

import type { IncomingMessage } from 'node:http'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { release } from '#lib/release.ts'

/** So many bytes must arrive in each `bodyPaceMs`: whoever sends less holds memory for nothing. */
const paceBytesMin = 16 * 1024

/**
 * Resolves with the body; its memory may be moved away. A body of announced length goes straight to its place: to keep
 * all pieces and join them at the end would stop the event loop for milliseconds and need the memory twice. Throws
 * AppError `payload_too_large` beyond `bytesMax`, `bad_request` when the body ends before its announced length or arrives
 * too slowly (408), and what `arrived` throws, which is called with the size of each piece before it is kept.
 */
export function receiveBody(
  request: IncomingMessage,
  bytesMax: number,
  arrived: (bytes: number) => void = () => {},
): Promise<Buffer> {
  const announced = request.headers['content-length']
  const length = announced === undefined ? undefined : Number(announced)
  if (length !== undefined && length > bytesMax) return Promise.reject(tooLarge())
  const whole = length === undefined ? undefined : Buffer.from(new ArrayBuffer(length))
  const pieces: Buffer[] = []
  let received = 0
  let receivedBefore = 0
  return new Promise((resolve, reject) => {
    function onData(piece: Buffer): void {
      if (received + piece.length > (length ?? bytesMax)) {
        end(tooLarge())
        return
      }
      try {
        arrived(piece.length)
      } catch (error) {
        end(error as Error)
        return
      }
      received += piece.length
      if (!whole) {
        pieces.push(piece)
        return
      }
      whole.set(piece, received - piece.length)
      release(piece)
    }
    function onEnd(): void {
      end(length !== undefined && received !== length ? cutShort() : null)
    }
    const onError = () => end(cutShort())
    const pace = setInterval(() => {
      if (received - receivedBefore < paceBytesMin) end(tooSlow())
      receivedBefore = received
    }, deadlines.request.bodyPaceMs)
    function end(error: Error | null): void {
      clearInterval(pace)
      request.off('data', onData).off('end', onEnd).off('error', onError).off('close', onError)
      // A late fault of the connection must find a listener.
      request.on('error', () => {})
      if (error) {
        if (whole) release(whole)
        reject(error)
      } else resolve(whole ?? Buffer.concat(pieces, received))
    }
    request.on('data', onData).on('end', onEnd).on('error', onError).on('close', onError)
  })
}

function tooLarge(): AppError {
  return new AppError('payload_too_large', 'Send a smaller body.')
}

function tooSlow(): AppError {
  const seconds = deadlines.request.bodyPaceMs / 1_000
  return new AppError(
    'bad_request',
    `The body arrives too slowly: send at least ${paceBytesMin} bytes in every ${seconds} seconds.`,
    { statusCode: 408 },
  )
}

function cutShort(): AppError {
  return new AppError('bad_request', 'The body ended before its announced length; send it again.')
}
