/** Event streams of callers: each holds a place instead of a slot, and ends with its caller's right or with the service. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { budgets } from '#lib/budgets.ts'
import { AppError, describeError, type ErrorCode } from '#lib/errors.ts'
import {
  type EventStream,
  type EventStreamOptions,
  openEventStream,
  type StreamEvent,
} from '#runtime/http/event-stream.ts'
import { publicError } from '#runtime/http/problem.ts'
import { type Caller, callerOf } from '#services/access/callers/caller.ts'
import type { Tokens } from '#services/access/tokens/tokens.ts'
import { endOperation } from './limiter.ts'

export interface CallerStreamOptions extends EventStreamOptions {
  /** One that was taken before; the stream gives it back. */
  place?: StreamPlace
  /** True: no event `end`. The connection ends, and whoever connects again is answered why. */
  quiet?: boolean
  /** The last event of a stream that ends because of this code, in place of the event `end`. */
  lastOf?(code: ErrorCode): StreamEvent
}

export type CallerStreams = ReturnType<typeof createCallerStreams>

export function createCallerStreams(
  { tokens, log }: { tokens: Pick<Tokens, 'watch'>; log: Logger },
  places: ReturnType<typeof createStreamPlaces> = createStreamPlaces(),
) {
  // No more than places.
  const open = new Map<EventStream, (code: ErrorCode) => void>()
  const held = new Set<AbortController>()
  return {
    /**
     * Answers with the stream that `run` writes to, until it resolves or its signal aborts: the reader left, or has the
     * event `end`, `{code}`, behind it. Throws AppError `too_many_streams`.
     */
    answer(
      request: FastifyRequest,
      reply: FastifyReply,
      run: (stream: EventStream, signal: AbortSignal) => Promise<void>,
      { quiet = false, lastOf, place: taken, ...options }: CallerStreamOptions = {},
    ): FastifyReply {
      const caller = callerOf(request)
      const place = taken ?? places.take(caller.uid)
      const stream = openEventStream(reply, options)
      const last = lastOf ?? ((code: ErrorCode) => (quiet ? undefined : { event: 'end', data: { code } }))
      const end = (code: ErrorCode) => stream.end(last(code))
      const watch = tokens.watch(caller)
      // From here on it holds its place, not a slot of the caller's concurrency.
      endOperation(request)
      open.set(stream, end)
      watch.signal.addEventListener('abort', () => end(endOf(caller)))
      stream.closed.addEventListener('abort', () => {
        open.delete(stream)
        watch.close()
        place.release()
      })
      run(stream, AbortSignal.any([watch.signal, stream.closed])).then(
        () => stream.end(),
        (error: unknown) => {
          log.warn({ request_id: request.id, reason: describeError(error) }, 'stream.failed')
          end(publicError(error).code)
        },
      )
      return reply.send(stream.body)
    },
    /**
     * Resolves with what `work` does, which holds a place meanwhile as a stream does. Its signal aborts when the caller left
     * or the service stops: then it answers what it has. Throws AppError `too_many_streams`, and `unauthorized` or
     * `token_expired` where the caller's right ended.
     */
    async hold<T>(
      request: FastifyRequest,
      reply: FastifyReply,
      work: (signal: AbortSignal) => Promise<T>,
    ): Promise<T> {
      const caller = callerOf(request)
      const place = places.take(caller.uid)
      const watch = tokens.watch(caller)
      const over = new AbortController()
      const end = () => over.abort()
      reply.raw.once('close', end)
      held.add(over)
      endOperation(request)
      try {
        const result = await work(AbortSignal.any([watch.signal, over.signal]))
        if (watch.signal.aborted) throw new AppError(endOf(caller), 'The right to read this has ended.')
        return result
      } finally {
        reply.raw.removeListener('close', end)
        held.delete(over)
        watch.close()
        place.release()
      }
    },
    /** Before the service closes its connections. */
    endAll(): void {
      for (const over of held) over.abort()
      for (const end of open.values()) end('shutting_down')
    },
  }
}

/** Why a right is over. */
function endOf({ tokenExpiresAt = Number.POSITIVE_INFINITY }: Caller): ErrorCode {
  return tokenExpiresAt <= Date.now() ? 'token_expired' : 'unauthorized'
}

/** Nobody knows when a stream ends: a place may be free after this long. */
const retryAfterS = 5

/** A place that is held until it is given back. */
export interface StreamPlace {
  /** Only the first call counts. */
  release(): void
}

export function createStreamPlaces({
  callerMax = budgets.streams.callerMax as number,
  instanceMax = budgets.streams.interfaceMax as number,
} = {}) {
  // No more entries than places.
  const byCaller = new Map<string, number>()
  let taken = 0

  return {
    /** Places that are taken. */
    taken: (): number => taken,
    /** Throws AppError `too_many_streams` when the caller, or the instance, has no place left. */
    take(callerUid: string): StreamPlace {
      const own = byCaller.get(callerUid) ?? 0
      if (own >= callerMax) {
        throw tooMany(`At most ${callerMax} streams of one caller are open at once: close one.`)
      }
      if (taken >= instanceMax) throw tooMany(`This instance has ${instanceMax} open streams already.`)
      byCaller.set(callerUid, own + 1)
      taken += 1
      let held = true
      return {
        release() {
          if (!held) return
          held = false
          taken -= 1
          const left = byCaller.get(callerUid)! - 1
          if (left === 0) byCaller.delete(callerUid)
          else byCaller.set(callerUid, left)
        },
      }
    },
  }
}

function tooMany(message: string): AppError {
  return new AppError('too_many_streams', message, { retryAfter: retryAfterS })
}
