/** /sessions: lists the sessions of a user, reads and follows one, and deletes it. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { pageBytesMax } from '#runtime/http/answers.ts'
import { serverMark } from '#runtime/http/api/facts.ts'
import { acceptsEvents } from '#runtime/http/event-stream.ts'
import { linkNext, type PageParameters, page, readPage } from '#runtime/http/paging.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import {
  followSession,
  readPosition,
  type SessionReader,
  saidIn,
  sessionStart,
} from '../../follow/follow-session.ts'
import { listSessions } from '../../state/sessions.ts'
import type { RunEvent } from '../../state/types.ts'
import { deleteSession } from '../delete-session.ts'
import type { RunParts } from '../gateway.ts'
import { faulty } from '../message-parts.ts'
import { seenBy, sessionFor } from '../owned.ts'
import { checkedId, queryText } from '../requests.ts'
import { sessionDeleted, sessionEvents, sessions, viewOfSession } from '../session-views.ts'
import { streamOptions } from './stream.ts'

const userId = Type.Optional(queryText('Whose session. Default: the caller.'))
const params = Type.Object({ sessionId: queryText('Its id.') })

const positionRule = 'the cursor of a page, or the id of an event, of this session'
const position = (description: string) =>
  Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{1,8192}$', rule: positionRule, description }))

type Who = { userId?: string }

/** Commands of the reference page that say something in a session first, and wait for the answer. */
const sampleOf =
  (rest: string, options = '') =>
  (prefix: string) => {
    const curl = (path: string, more = '') =>
      `curl -sS${more} "${serverMark}${prefix}${path}" -H "Authorization: Bearer $ID_TOKEN"`
    const body = (more: string) =>
      `-H 'Content-Type: application/json' -d '{${more}"sessionId":"reference","newMessage":{"parts":[{"text":"Any news?"}]}}'`
    const said =
      prefix === ''
        ? `${curl('/whale/run')} \\\n  ${body('')} > /dev/null`
        : `RUN_ID=$(${curl('/runs')} \\\n  ${body('"appName":"WHALE",')} | sed 's/.*"runId":"\\([^"]*\\)".*/\\1/')
${curl('/runs/$RUN_ID/events')} > /dev/null`
    return `${said}\n${curl(`/sessions/reference${rest}`, options)}`
  }

export function registerSessions(scope: FastifyInstance, parts: RunParts): void {
  registerList(scope, parts)
  registerEvents(scope, parts)
  registerDeletion(scope, parts)
}

function registerList(scope: FastifyInstance, { relational }: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/sessions',
    config: { problems: ['forbidden'] },
    schema: {
      operationId: 'listSessions',
      tags: ['sessions'],
      summary: 'List the sessions of a user',
      description:
        'The one with the newest message first; one that gets a message meanwhile is the first of another list. Those with runs that ' +
        'the caller started, or that are of the caller as a user, and of these no more than such runs; an admin sees all.',
      querystring: Type.Object(
        {
          ...page,
          userId: Type.Optional(queryText('Whose sessions. Default: the caller.')),
          agent: Type.Optional(queryText('Only sessions in which this agent ran: a codename or slug.')),
        },
        { additionalProperties: false },
      ),
      response: { 200: sessions },
    },
    async handler(request, reply) {
      const { userId, agent } = request.query as Who & { agent?: string }
      const caller = callerOf(request)
      const found = await listSessions(relational, {
        own: seenBy(caller),
        userId: userId ?? caller.agentId,
        ...(agent === undefined ? {} : { agent }),
        ...readPage(request.query as PageParameters),
      })
      linkNext(request, reply, found.next)
      return found.sessions.map(viewOfSession)
    },
  })
}

const eventsDescription = `Each message of the user is an event of the author \`user\`, with the parts as they were sent and the id of its run as
\`invocationId\`; what the agents said to it follows, also of those that joined. A dispatch has one message. Messages are in the order in
which they were accepted.

As a page of an array, the next one behind \`Link\`; or with \`Accept: text/event-stream\` as a stream: the same, then new events,
until the reader leaves. There each event has an id, an opaque text: send it as \`Last-Event-ID\`, or \`?after=\`, to go on behind it. Pieces
of texts are not among them; the streams of runs have these.`

function registerEvents(scope: FastifyInstance, parts: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/sessions/:sessionId/events',
    config: { problems: ['forbidden', 'session_not_found', 'too_many_streams'], sample: sampleOf('/events') },
    schema: {
      operationId: 'listSessionEvents',
      tags: ['sessions'],
      summary: 'Read or follow a session',
      description: eventsDescription,
      params,
      querystring: Type.Object(
        {
          limit: page.limit,
          cursor: position('From the `Link` of the page before; opaque.'),
          userId,
          after: position('As `Last-Event-ID`.'),
        },
        { additionalProperties: false },
      ),
      headers: Type.Object({
        'last-event-id': Type.Optional(
          Type.String({
            description: 'The id of the last event that was received: the stream goes on behind it.',
          }),
        ),
      }),
      response: { 200: sessionEvents },
    },
    async handler(request, reply) {
      const caller = callerOf(request)
      const session = await sessionFor(parts.relational, caller, sessionOf(request))
      const reader = { relational: parts.relational, session, own: seenBy(caller) }
      return acceptsEvents(request.headers.accept)
        ? answerStream(parts, reader, request, reply)
        : answerPage(reader, request, reply)
    },
  })
}

/** Throws AppError `validation_failed`. */
function sessionOf(request: FastifyRequest): { sessionId: string } & Who {
  const { sessionId } = request.params as { sessionId: string }
  const { userId } = request.query as Who
  return { sessionId: checkedId(sessionId, 'sessionId')!, ...(userId === undefined ? {} : { userId }) }
}

function answerStream(
  parts: RunParts,
  reader: SessionReader,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { after } = request.query as { after?: string }
  const start = positionOf((request.headers['last-event-id'] as string | undefined) || after, 'after')
  return parts.streams.answer(
    request,
    reply,
    async (stream, signal) => {
      for await (const { event, position } of followSession({ ...reader, ...parts }, start, signal)) {
        await stream.room()
        if (signal.aborted) return
        stream.send({ id: position, data: event })
      }
    },
    streamOptions,
  )
}

/** Events are long: a page ends at `limit`, or at its bytes. */
async function answerPage(
  reader: SessionReader,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<RunEvent[]> {
  const { limit: most, cursor } = request.query as PageParameters
  const { limit } = readPage(most === undefined ? {} : { limit: most })
  const events: RunEvent[] = []
  let bytes = 0
  let last: string | undefined
  for await (const { event, position } of saidIn(reader, positionOf(cursor, 'cursor'))) {
    bytes += Buffer.byteLength(JSON.stringify(event))
    if (events.length === limit || (events.length > 0 && bytes > pageBytesMax)) {
      linkNext(request, reply, last)
      break
    }
    events.push(event)
    last = position
  }
  return events
}

/** Throws AppError `validation_failed`. */
function positionOf(given: string | undefined, name: string) {
  if (given === undefined) return sessionStart()
  const position = readPosition(given)
  if (position) return position
  throw faulty(name, positionRule)
}

function registerDeletion(scope: FastifyInstance, parts: RunParts): void {
  const { relational, nodes } = parts
  scope.route({
    method: 'DELETE',
    url: '/sessions/:sessionId',
    onRequest: leastAccess('member'),
    config: {
      operation: 'session.delete',
      problems: ['forbidden', 'user_mismatch', 'session_not_found', 'session_busy', 'node_unavailable'],
      sample: sampleOf('', ' -X DELETE'),
    },
    schema: {
      operationId: 'deleteRunSession',
      tags: ['sessions'],
      summary: 'Delete a session',
      description:
        'Its runs, their events and the reports about them, its dispatches, and the session at each of its nodes. Goals of dispatches ' +
        'stay at the hub. While a run of it is at work or waiting it is refused. Where a node is away nothing is lost from the lists: ' +
        'delete it again.',
      params,
      querystring: Type.Object({ userId }, { additionalProperties: false }),
      response: { 200: sessionDeleted },
    },
    async handler(request, reply) {
      const caller = callerOf(request)
      const given = sessionOf(request)
      const left = new AbortController()
      reply.raw.once('close', () => left.abort())
      const change = { action: 'session.delete', target: `session/${given.sessionId}` }
      return parts.change(request, change, async () => {
        const session = await sessionFor(relational, caller, given)
        const own = seenBy(caller)
        await deleteSession({ relational, nodes: nodes.current(), own, signal: left.signal }, session)
        return { sessionId: session.sessionId, userId: session.userId, deleted: true as const }
      })
    },
  })
}
