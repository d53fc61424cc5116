/**
 * Receives a big body, which must arrive with a least pace, in blocks that grow with what has come, into one piece of memory of
 * its own.
 */

import type { IncomingMessage } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, overloaded } from '#lib/errors.ts'
import { detach } from '#lib/giving-way.ts'

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

const blockBytes = { least: 16 * 1024, most: 1024 * 1024 }
/** Copied before others get their turn of the event loop. */
const joinedAtOnceBytes = 4 * 1024 * 1024

/** `lengthMax` is how many bytes may come at most: no block is larger than the missing rest. */
function createGrownBytes(lengthMax: number) {
  let blocks: Buffer[] = []
  let length = 0
  /** Free bytes at the end of the last block. */
  let free = 0

  function grow(pieceBytes: number): void {
    const wanted = Math.min(blockBytes.most, Math.max(blockBytes.least, length, pieceBytes))
    free = Math.min(wanted, lengthMax - length)
    blocks.push(allocate(free))
  }
  return {
    /**
     * Copies the piece and gives its memory back. A block is as large as what was there before it, 1 MiB at most: what is
     * held is in proportion to what has come, however small its pieces. Throws AppError `overloaded` when there is no memory.
     */
    add(piece: Buffer): void {
      for (let at = 0; at < piece.length; ) {
        if (free === 0) grow(piece.length - at)
        const block = blocks.at(-1)!
        const taken = piece.copy(block, block.length - free, at)
        at += taken
        free -= taken
        length += taken
      }
      detach(piece)
    },
    /** Everything, in memory of its own that may be moved away. Throws as `add`. */
    async join(): Promise<Buffer> {
      if (blocks.length === 1 && free === 0) return blocks[0]!
      const whole = allocate(length)
      let at = 0
      let sinceTurn = 0
      for (const block of blocks) {
        if (sinceTurn >= joinedAtOnceBytes) {
          await setImmediate()
          sinceTurn = 0
        }
        const copied = block.copy(whole, at)
        at += copied
        sinceTurn += copied
        detach(block)
      }
      blocks = []
      return whole
    },
    /** Gives all memory back. */
    drop(): void {
      for (const block of blocks) detach(block)
      blocks = []
      free = 0
    },
  }
}

function allocate(bytes: number): Buffer {
  try {
    return Buffer.from(new ArrayBuffer(bytes))
  } catch (error) {
    throw overloaded('There is no memory for this body now', error)
  }
}
