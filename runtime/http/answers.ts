/** The memory of large answers: all that are under way in this process share one budget of bytes. */

import { finished } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'
import { overloaded } from '#lib/errors.ts'
import { createTurns } from '#lib/turns.ts'
import { sleep } from '../../lib/backoff.ts'

/**
 * Runs `work` when all that was given before has ended. While others wait, each is followed by a rest as long as it took, so
 * that what is short has at least half of the time: of the event loop, and of a database with one session.
 */
export function createOneByOne(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  let waiting = 0
  return (work) => {
    waiting++
    let begun = 0
    const result = last.then(() => {
      waiting--
      begun = performance.now()
      return work()
    })
    const rest = () => (waiting > 0 ? sleep(performance.now() - begun) : undefined)
    last = result.then(rest, rest)
    return result
  }
}

/** A page ends here; its first row comes whatever its size. */
export const pageBytesMax = 4 * 1024 * 1024
/** Rows of a page are read in pieces of so many bytes, and of one row more. */
export const pieceBytesMax = 256 * 1024
/** What one piece counts for: its rows, their text, and what of it waits for the reader. */
export const heldBytesPerPiece = 1024 * 1024
/** Bound of all answers of the process. */
export const answersBytesMax = budgets.answers.processBytes
/** Bound of one caller's answers. */
export const callerBytesMax = budgets.answers.callerBytes
const waitingMax = 1_000
const lookMs = 1_000

export interface HeldAnswer {
  /** When the reader last took something (performance.now); infinite while it waits for us. */
  takenAt: number
}

interface AnswersOptions {
  /** How long an answer waits for its turn. */
  patienceMs?: number
  /** A reader that takes nothing for so long is cut off. */
  takenMs?: number
}

export function createAnswers({
  patienceMs = deadlines.request.answerTurnMs,
  takenMs = deadlines.request.answerTakenMs,
}: AnswersOptions = {}) {
  const turns = createTurns({
    atOnce: answersBytesMax / heldBytesPerPiece,
    perCaller: callerBytesMax / heldBytesPerPiece,
    waitingMax,
  })
  const tooMany = () => overloaded('Too many large answers are being sent')
  const holding = new WeakMap<object, HeldAnswer>()
  let held = 0

  /**
   * Waits until `bytes` of the budget are free, callers in turns, and resolves with what gives them back. Throws AppError
   * `overloaded` when they are not free in time. More than a caller's share counts as that share.
   */
  function take(caller: string, bytes = heldBytesPerPiece): Promise<() => void> {
    const pieces = Math.max(1, Math.ceil(Math.min(bytes, callerBytesMax) / heldBytesPerPiece))
    const taken = Promise.withResolvers<() => void>()
    const work = async () => {
      held += pieces
      await new Promise<void>((release) => taken.resolve(release))
      held -= pieces
    }
    turns.take(caller, patienceMs, tooMany, work, pieces).catch(taken.reject)
    return taken.promise
  }
  /** Until the answer is written; nothing but cutting the connection reaches a reader that does not read. */
  function watch(request: FastifyRequest, { raw }: FastifyReply, release: () => void): HeldAnswer {
    const answer = { takenAt: Number.POSITIVE_INFINITY }
    holding.set(raw, answer)
    // An answer that waits behind another one on its connection does not close with it.
    const { socket } = request.raw
    const look = () => {
      if (performance.now() - answer.takenAt > takenMs) socket.destroy()
    }
    const watching = setInterval(look, Math.min(lookMs, takenMs))
    const end = () => {
      clearInterval(watching)
      socket.off('close', end)
      release()
    }
    if (raw.closed || socket.destroyed) end()
    else finished(raw, end)
    socket.once('close', end)
    return answer
  }
  return {
    take,
    /**
     * As `take`, for the answer of this request: it gives the bytes back when `work` fails, else once the answer is written
     * or its connection is gone. A reader that then takes nothing for too long is cut off.
     */
    async hold<T>(
      request: FastifyRequest,
      reply: FastifyReply,
      work: () => Promise<T>,
      bytes?: number,
    ): Promise<T> {
      const release = await take(request.agentId ?? request.ip, bytes)
      const answer = watch(request, reply, release)
      try {
        const result = await work()
        // A text goes to the connection at once; pieces note by themselves when they are taken.
        answer.takenAt = Math.min(answer.takenAt, performance.now())
        return result
      } catch (error) {
        holding.delete(reply.raw)
        release()
        throw error
      }
    },
    /** The part of the budget that this answer has, if any. */
    of: (reply: FastifyReply): HeldAnswer | undefined => holding.get(reply.raw),
    /** Bytes that are taken. */
    heldBytes: (): number => held * heldBytesPerPiece,
  }
}

/** Those of this process, whatever services run in it. */
export const answers = createAnswers()

/** Reads a piece of a large answer: one at a time over the process, whatever services run in it. */
export const readLarge = createOneByOne()
