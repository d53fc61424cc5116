/** Answers with the events of a run or dispatch. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { type EventStream, Json } from '#runtime/http/event-stream.ts'
import type { CallerStreamOptions, CallerStreams } from '#services/access/limits/caller-streams.ts'
import type { Follow } from '../../follow/follow.ts'
import type { Subject } from '../../follow/subjects.ts'
import { faulty } from '../requests.ts'

/** Query of the routes that answer with events. */
export const streamQuery = {
  after: Type.Optional(Type.String({ pattern: '^\\d{1,15}$', description: 'As `Last-Event-ID`.' })),
}
export const streamHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({ description: 'The id of the last event that was received: the stream goes on behind it.' }),
  ),
})

const streamOptions = { quiet: true, retryMs: 2_000, heartbeat: 'ping' } as const

interface Streamed<T> {
  follow: Follow<T>
  after: number
  fresh?: boolean
  /** The last frame. */
  endOf(value: T): object
}

/** Closes `follow` with the stream. */
export function answerEvents<T>(
  streams: CallerStreams,
  request: FastifyRequest,
  reply: FastifyReply,
  streamed: Streamed<T>,
  options: Pick<CallerStreamOptions, 'place'> = {},
): FastifyReply {
  const send = (stream: EventStream, signal: AbortSignal) => sendEvents(stream, signal, streamed)
  try {
    return streams.answer(request, reply, send, { ...streamOptions, ...options })
  } catch (error) {
    streamed.follow.close()
    throw error
  }
}

async function sendEvents<T>(
  stream: EventStream,
  signal: AbortSignal,
  { follow, after, fresh = false, endOf }: Streamed<T>,
): Promise<void> {
  let lastId = after
  try {
    const events = follow.events({ after, fresh, signal })
    for (;;) {
      const { done, value } = await events.next()
      if (done) {
        // Its id is greater than those of all events.
        if (value !== undefined) stream.end({ id: String(lastId + 1), data: endOf(await value.read()) })
        return
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
  throw faulty('after', 'must be the number of an event')
}
