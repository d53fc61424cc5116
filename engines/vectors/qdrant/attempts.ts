/** Time limits, repeats and faults of calls to Qdrant, by either protocol; its own text goes to the log only. */

import type { Logger } from 'pino'
import { backoffMs, isDoubling, sleep } from '#lib/backoff.ts'
import { AppError, describeError, whyWaiting } from '#lib/errors.ts'
import { vectorsUnavailable } from '../collections.ts'

export type QdrantLog = Pick<Logger, 'info' | 'warn' | 'error'>

/** Every call is idempotent, so one whose connection broke is made again. */
const attemptsMax = 3
const retryWait = { baseMs: 50, maxMs: 400 }

/** What Qdrant answers when a collection is missing (or its alias is just being put elsewhere). */
export class CollectionMissing extends Error {
  override readonly name = 'CollectionMissing'
}

/** An answer that says no, in Qdrant's words. */
export class Refused extends Error {
  /** As of HTTP. */
  readonly status: number

  constructor(status: number, text: string) {
    super(text)
    this.status = status
  }
}

interface Attempt {
  /** Names the call in the log. */
  what: string
  /** Time limit of each attempt. */
  limitMs: number
  signal?: AbortSignal | undefined
}

interface Protocol {
  log: QdrantLog
  /** Holds the address. */
  setting: string
  /** The server closed an idle connection just when it was used again, or went away in the middle. */
  isBrokenConnection(error: unknown): boolean
}

/**
 * Runs calls. Resolves with the result of `send`. Throws CollectionMissing, AppError `validation_failed` for a malformed request,
 * `conflict` for a collection that exists already, and `vector_engine_unavailable` where waiting may help.
 */
export function createAttempts({ log, setting, isBrokenConnection }: Protocol) {
  /** Calls in a row that failed because Qdrant is away. */
  let failures = 0

  /** Says so at first and then at each doubling: searches and writers make many calls a second. */
  function unavailable(what: string, error: unknown, status: number | undefined): AppError {
    const fault = vectorsUnavailable(error, setting)
    failures += 1
    if (isDoubling(failures)) {
      const facts = { call: what, status, tries: failures, ...whyWaiting(fault) }
      log.error(facts, 'vectors.qdrant-failed')
    }
    return fault
  }

  function answered(): void {
    if (failures > 0) log.info({ tries: failures }, 'vectors.qdrant-answers')
    failures = 0
  }

  function translate(what: string, error: unknown): Error {
    const status = error instanceof Refused ? error.status : undefined
    const refusal = status === undefined ? null : refusalOf(what, status, error, log)
    if (refusal === null) return unavailable(what, error, status)
    answered()
    return refusal
  }
  return async <T>(
    { what, limitMs, signal }: Attempt,
    send: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    for (let attempt = 0; ; attempt++) {
      const limit = AbortSignal.timeout(limitMs)
      const ends = signal ? AbortSignal.any([limit, signal]) : limit
      try {
        const result = await send(ends)
        answered()
        return result
      } catch (error) {
        if (ends.aborted || attempt + 1 === attemptsMax || !isBrokenConnection(error))
          throw translate(what, error)
        await sleep(backoffMs(attempt, retryWait))
      }
    }
  }
}

/** The fault of a request that Qdrant refuses each time; null where waiting may help. */
function refusalOf(what: string, status: number, error: unknown, log: QdrantLog): Error | null {
  if (status === 404) return new CollectionMissing()
  // Another process made the collection at the same time.
  if (status === 409) return new AppError('conflict', 'Qdrant has it already.')
  if (status !== 400 && status !== 413 && status !== 422) return null
  log.error({ call: what, status, cause: describeError(error) }, 'vectors.qdrant-refused')
  return new AppError('validation_failed', 'The vector engine refuses what it was sent.')
}
