/** Answers with the events of a run or dispatch: as a stream, or all at once. */

import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import { type EventStream, Json } from '#runtime/http/event-stream.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import type { CallerStreams, StreamPlace } from '#services/access/limits/caller-streams.ts'
import type { Tokens } from '#services/access/tokens/tokens.ts'
import type { Follow } from '../../follow/follow.ts'
import type { Subject } from '../../follow/subjects.ts'
import { readEvents } from '../../state/read.ts'
import type { Run } from '../../state/types.ts'
import { faulty } from '../message-parts.ts'
import { endOfRun, failureOf } from '../views.ts'

/** Query of the routes that answer with events. */
export const streamQuery = {
  after: Type.Optional(
    Type.String({
      pattern: '^\\d{1,15}$',
      rule: 'the number of an event',
      description: 'As `Last-Event-ID`.',
    }),
  ),
}
export const streamHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({ description: 'The id of the last event that was received: the stream goes on behind it.' }),
  ),
})

export const streamOptions = { quiet: true, retryMs: 2_000, heartbeat: 'ping' } as const

interface Streamed<T> {
  follow: Follow<T>
  after: number
  fresh?: boolean
  /** The last frame. */
  endOf(value: T): object
  /** Ends where a run asks; otherwise the question is shown, and the stream stays open. */
  untilAsked?: boolean
  /** One that was taken before. */
  place?: StreamPlace
}

/** Closes `follow` with the stream. */
export function answerEvents<T>(
  streams: CallerStreams,
  request: FastifyRequest,
  reply: FastifyReply,
  streamed: Streamed<T>,
): FastifyReply {
  const { place } = streamed
  const send = (stream: EventStream, signal: AbortSignal) => sendEvents(stream, signal, streamed)
  try {
    return streams.answer(request, reply, send, { ...streamOptions, ...(place ? { place } : {}) })
  } catch (error) {
    streamed.follow.close()
    throw error
  }
}

async function sendEvents<T>(
  stream: EventStream,
  signal: AbortSignal,
  { follow, after, fresh = false, untilAsked = false, endOf }: Streamed<T>,
): Promise<void> {
  let lastId = after
  try {
    const events = follow.events({ after, fresh, untilAsked, signal })
    for (;;) {
      const { done, value } = await events.next()
      if (done) {
        if (value === undefined) return
        // Its id is greater than those of all events; a question has none, because events follow.
        if (value.asks) stream.end({ data: endOfRun(await value.read()) })
        else stream.end({ id: String(lastId + 1), data: endOf(await value.read()) })
        return
      }
      if ('readAsking' in value) {
        await stream.room()
        stream.send({ data: endOfRun(await value.readAsking()) })
        continue
      }
      const { seq, json } = value
      if (seq === null) {
        // A reader that is slow misses pieces: their text comes again as a whole.
        if (stream.hasRoom()) stream.send({ data: new Json(json) })
        continue
      }
      lastId = seq
      await stream.room()
      stream.send({ id: String(seq), data: new Json(json) })
    }
  } finally {
    follow.close()
  }
}

/**
 * Whether a reader that goes on at `after` has all of it, the last frame too. It is answered 204: an EventSource would come
 * again and again for the end of an answer (HTML standard, 9.2.3).
 */
export async function hasAll<T>(subject: Subject<T>, after: number): Promise<boolean> {
  return after > 0 && (await subject.lookNow()).ended && !(await subject.hasFrom(after))
}

/** Answer of those routes to a client that has all events. */
export const nothingMore = {
  title: 'NothingMore',
  description: 'It has ended, and the reader has its last event.',
  type: 'null',
} as const

/** Where a reader goes on: `Last-Event-ID`, or `?after`. Throws AppError `validation_failed`. */
export function afterOf(request: FastifyRequest): number {
  const { after } = request.query as { after?: string }
  const given = (request.headers['last-event-id'] as string | undefined) || after
  if (given === undefined) return 0
  const number = /^\d{1,15}$/.test(given) ? Number(given) : Number.NaN
  if (Number.isSafeInteger(number)) return number
  throw faulty('after', 'the number of an event')
}

/** Events kept until the end; longer answers are read from the rows again. */
const keptBytesMax = 256 * 1024
const pageMax = 16

/** A run whose answer is wanted. */
export interface StartedRun {
  run: Run
  /** Opened before the run was made, so that nothing is missed; it may be later where the events are numbered from `after`. Close it. */
  follow: Follow<Run>
  /** False for a run that was there before. */
  fresh: boolean
  join: boolean
  /** Only events behind it. Default 0. */
  after?: number
}

/** False when the signal aborted first. Throws the problem of a run that has not completed. */
export async function answerWhole(
  { relational }: { relational: Relational },
  reply: FastifyReply,
  { follow, fresh, run, join, after = 0 }: StartedRun,
  signal: AbortSignal,
): Promise<boolean> {
  let kept: string[] = []
  let bytes = 0
  try {
    const events = follow.events({ after, fresh, untilAsked: true, signal })
    for (;;) {
      const { done, value } = await events.next()
      if (done) {
        if (value === undefined) return false
        const failure = value.asks || value.completed ? undefined : failureOf(await value.read())
        if (failure) throw failure
        if (value.asks) reply.header('x-run-status', 'input_required')
        reply.type('application/json; charset=utf-8')
        reply.send(
          bytes > keptBytesMax ? Readable.from(arrayOf(relational, run, join, after)) : `[${kept.join(',')}]`,
        )
        return true
      }
      if ('readAsking' in value || value.seq === null) continue
      bytes += value.json.length
      if (bytes > keptBytesMax) kept = []
      else kept.push(value.json)
    }
  } finally {
    follow.close()
  }
}

/** The same as text, a page of rows at a time. */
async function* arrayOf(
  relational: Relational,
  { runId, rootRunId }: Run,
  join: boolean,
  begin: number,
): AsyncGenerator<string> {
  let after = begin
  let between = '['
  for (;;) {
    const query = { rootRunId, after, limit: pageMax, ...(join ? {} : { runId }) }
    const page = await readEvents(relational, query)
    for (const { seq, event } of page) {
      yield `${between}${JSON.stringify(event)}`
      between = ','
      after = seq
    }
    // A short page may have ended by its bytes.
    if (page.length === 0) break
  }
  yield between === '[' ? '[]' : ']'
}

interface Waiting {
  caller: Caller
  reply: FastifyReply
  place: StreamPlace
  waitMs: number
}

/** Places of answers that wait for all events: each is held as by an open stream, and ends with its caller or with the service. */
export function createWaits({ tokens }: { tokens: Pick<Tokens, 'watch'> }) {
  // No more than places.
  const open = new Set<AbortController>()
  return {
    /**
     * Runs `work` until it resolves, or its signal aborts: the time is over, the caller left or was changed, or the service
     * stops. Gives the place back.
     */
    async during<T>({ caller, reply, place, waitMs }: Waiting, work: (signal: AbortSignal) => Promise<T>) {
      const over = new AbortController()
      const end = () => over.abort()
      const timer = setTimeout(end, waitMs)
      const watch = tokens.watch(caller)
      watch.signal.addEventListener('abort', end)
      reply.raw.once('close', end)
      open.add(over)
      try {
        return await work(over.signal)
      } finally {
        clearTimeout(timer)
        watch.close()
        reply.raw.removeListener('close', end)
        open.delete(over)
        place.release()
      }
    },
    /** Before the service closes its connections: every answer says how far its run is. */
    endAll() {
      for (const over of open) over.abort()
    },
  }
}
