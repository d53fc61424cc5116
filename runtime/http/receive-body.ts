/** Receives a big body, which must arrive with a least pace, into one piece of memory of its own. */

import type { IncomingMessage } from 'node:http'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { createGrownBytes } from './grown-bytes.ts'

/** So many bytes must arrive in each `bodyPaceMs`: whoever sends less holds memory for nothing. */
const paceBytesMin = 16 * 1024

/**
 * Resolves with the body; its memory may be moved away. Memory is taken for what has come and never for what is announced:
 * a caller that announces much and sends little would hold it for nothing. Throws AppError `payload_too_large` beyond `bytesMax`,
 * `bad_request` when the body ends before its announced length or arrives too slowly (408), `overloaded` where there is no
 * memory, and what `arrived` throws, which is called with the size of each piece before it is kept.
 */
export function receiveBody(
  request: IncomingMessage,
  bytesMax: number,
  arrived: (bytes: number) => void = () => {},
): Promise<Buffer> {
  const announced = request.headers['content-length']
  const length = announced === undefined ? undefined : Number(announced)
  if (length !== undefined && length > bytesMax) return Promise.reject(tooLarge())
  const bytes = createGrownBytes(length ?? bytesMax)
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
        received += piece.length
        bytes.add(piece)
      } catch (error) {
        end(error as Error)
      }
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
        bytes.drop()
        reject(error)
      } else bytes.join().then(resolve, reject)
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
