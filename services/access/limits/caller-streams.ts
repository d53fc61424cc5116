/** Event streams of callers: each holds a place instead of a slot, and ends with its caller's right or with the service. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { ErrorCode } from '#lib/error-codes.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { type EventStream, type EventStreamOptions, openEventStream } from '#runtime/http/event-stream.ts'
import { publicError } from '#runtime/http/problem.ts'
import { type Caller, callerOf } from '#services/access/callers/caller.ts'
import type { Tokens } from '#services/access/tokens/tokens.ts'
import { endOperation } from './limit-rate.ts'
import { createStreamPlaces, type StreamPlace, type StreamPlaces } from './stream-places.ts'

export interface CallerStreamOptions extends EventStreamOptions {
  /** One that was taken before; the stream gives it back. */
  place?: StreamPlace
  /** True: no event `end`. The connection ends, and whoever connects again is answered why. */
  quiet?: boolean
}

export interface CallerStreams {
  /**
   * Answers with the stream that `run` writes to, until it resolves or its signal aborts: the reader left, or has the
   * event `end`, `{code}`, behind it. Throws AppError `too_many_streams`.
   */
  answer(
    request: FastifyRequest,
    reply: FastifyReply,
    run: (stream: EventStream, signal: AbortSignal) => Promise<void>,
    options?: CallerStreamOptions,
  ): FastifyReply
  /**
   * Resolves with what `work` does, which holds a place meanwhile as a stream does. Its signal aborts when the caller left
   * or the service stops: then it answers what it has. Throws AppError `too_many_streams`, and `unauthorized` or
   * `token_expired` where the caller's right ended.
   */
  hold<T>(request: FastifyRequest, reply: FastifyReply, work: (signal: AbortSignal) => Promise<T>): Promise<T>
  /** Before the service closes its connections. */
  endAll(): void
}

export function createCallerStreams(
  { tokens, log }: { tokens: Pick<Tokens, 'watch'>; log: Logger },
  places: StreamPlaces = createStreamPlaces(),
): CallerStreams {
  // No more than places.
  const open = new Map<EventStream, (code: ErrorCode) => void>()
  const held = new Set<AbortController>()
  return {
    answer(request, reply, run, { quiet = false, place: taken, ...options } = {}) {
      const caller = callerOf(request)
      const place = taken ?? places.take(caller.uid)
      const stream = openEventStream(reply, options)
      const end = (code: ErrorCode) => (quiet ? stream.end() : endWith(stream, code))
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
    async hold(request, reply, work) {
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
    endAll() {
      for (const over of held) over.abort()
      for (const end of open.values()) end('shutting_down')
    },
  }
}

/** Why a right is over. */
function endOf({ tokenExpiresAt = Number.POSITIVE_INFINITY }: Caller): ErrorCode {
  return tokenExpiresAt <= Date.now() ? 'token_expired' : 'unauthorized'
}

function endWith(stream: Pick<EventStream, 'end'>, code: ErrorCode): void {
  stream.end({ event: 'end', data: { code } })
}
