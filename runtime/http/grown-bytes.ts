/** Keeps bytes whose number is only announced, in blocks that grow with what has come, and joins them at the end. */

import { setImmediate } from 'node:timers/promises'
import { AppError } from '#lib/errors.ts'
import { release } from '#lib/release.ts'

const blockBytes = { least: 16 * 1024, most: 1024 * 1024 }
/** Copied before others get their turn of the event loop. */
const joinedAtOnceBytes = 4 * 1024 * 1024

interface GrownBytes {
  /**
   * Copies the piece and gives its memory back. A block is as large as what was there before it, 1 MiB at most: what is held
   * is in proportion to what has come, however small its pieces. Throws AppError `overloaded` when there is no memory.
   */
  add(piece: Buffer): void
  /** Everything, in memory of its own that may be moved away. Throws as `add`. */
  join(): Promise<Buffer>
  /** Gives all memory back. */
  drop(): void
}

/** `lengthMax` is how many bytes may come at most: no block is larger than what is missing. */
export function createGrownBytes(lengthMax: number): GrownBytes {
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
    add(piece) {
      for (let at = 0; at < piece.length; ) {
        if (free === 0) grow(piece.length - at)
        const block = blocks.at(-1)!
        const taken = piece.copy(block, block.length - free, at)
        at += taken
        free -= taken
        length += taken
      }
      release(piece)
    },
    async join() {
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
        release(block)
      }
      blocks = []
      return whole
    },
    drop() {
      for (const block of blocks) release(block)
      blocks = []
      free = 0
    },
  }
}

function allocate(bytes: number): Buffer {
  try {
    return Buffer.from(new ArrayBuffer(bytes))
  } catch (error) {
    throw new AppError('overloaded', 'There is no memory for this body now; try again in a second.', {
      retryAfter: 1,
      cause: error,
    })
  }
}
