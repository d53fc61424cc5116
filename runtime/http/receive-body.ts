/** Receives a big body, which must arrive with a least pace, in blocks that grow with what has come. */

import type { IncomingMessage } from 'node:http'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, overloaded } from '#lib/errors.ts'
import { detach, isWhole } from '#lib/giving-way.ts'

/** So many bytes must arrive in each `bodyPaceMs`: whoever sends less holds memory for nothing. */
const paceBytesMin = 16 * 1024

/**
 * Resolves with the body in blocks; their memory may be moved away. Memory is taken for what has come and never for what is announced:
 * a caller that announces much and sends little would hold it for nothing. Throws AppError `payload_too_large` beyond `bytesMax`,
 * `bad_request` when the body ends before its announced length or arrives too slowly (408), `overloaded` where there is no
 * memory, and what `arrived` throws, which is called with the size of each piece before it is kept.
 */
export function receiveBody(
  request: IncomingMessage,
  bytesMax: number,
  arrived: (bytes: number) => void = () => {},
): Promise<Buffer[]> {
  const announced = request.headers['content-length']
  const length = announced === undefined ? undefined : Number(announced)
  if (length !== undefined && length > bytesMax) return Promise.reject(tooLarge())
  const bytes = createBlocks(length ?? bytesMax)
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
      } else resolve(bytes.take())
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

/** `lengthMax` is how many bytes may come at most: no block is larger than the missing rest. */
function createBlocks(lengthMax: number) {
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
     * A large piece becomes a block, others are copied, and their memory is given back. A block for copies is as large as what was
     * there before it, 1 MiB at most: what is held is in proportion to what has come, however small its pieces. Throws AppError
     * `overloaded` when there is no memory.
     */
    add(piece: Buffer): void {
      if (free === 0 && piece.length >= blockBytes.least && isWhole(piece)) {
        blocks.push(piece)
        length += piece.length
        return
      }
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
    /** Everything, once. */
    take(): Buffer[] {
      const last = blocks.at(-1)
      if (last && free > 0) blocks[blocks.length - 1] = last.subarray(0, last.length - free)
      const all = blocks
      blocks = []
      return all
    },
    /** Gives all memory back. */
    drop(): void {
      for (const block of blocks) detach(block)
      blocks = []
      free = 0
    },
  }
}

/**
 * One body of blocks, whose memory is given back as they are copied; in `room` where it is shorter than that: the caller must
 * be done with it before the next one. Throws AppError `overloaded` when there is no memory.
 */
export function joinBlocks(blocks: readonly Uint8Array[], room?: ArrayBuffer): Buffer {
  const [first, ...others] = blocks
  if (first && others.length === 0) return Buffer.from(first.buffer, first.byteOffset, first.byteLength)
  const length = blocks.reduce((sum, block) => sum + block.length, 0)
  const whole = room && length < room.byteLength ? Buffer.from(room, 0, length) : allocate(length)
  let at = 0
  for (const block of blocks) {
    whole.set(block, at)
    at += block.length
    detach(block)
  }
  return whole
}

function allocate(bytes: number): Buffer {
  try {
    return Buffer.from(new ArrayBuffer(bytes))
  } catch (error) {
    throw overloaded('There is no memory for this body now', error)
  }
}
