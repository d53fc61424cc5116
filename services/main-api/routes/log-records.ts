/**
 * GET /api/v1/log/topics/{topic}/records: the records of a topic for programs that do not speak Kafka, page by page or as
 * an event stream that goes on.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'
import { readPage } from '#operations/topic-stream/page.ts'
import { positionLengthMax } from '#operations/topic-stream/position.ts'
import {
  type OpenedRecords,
  openRecords,
  positionOf,
  streamRecords,
} from '#operations/topic-stream/records.ts'
import { serverMark } from '#runtime/http/api/facts.ts'
import { acceptsEvents, type EventStream, Json } from '#runtime/http/event-stream.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { fleetEvents, hubRecords } from '#topics/catalog.ts'
import type { MainApi } from '../main-api.ts'
import { operatedBy } from '../operate.ts'
import { closed, name, numberBetween, orNull, time, wholeNumber } from '../schemas.ts'

const limitMax = 1_000
const limitDefault = 100
const waitSecondsMax = 60
/** What every role may read: the others hold what agents and people do. */
const forEveryRole: readonly string[] = [hubRecords.name, fleetEvents.name]
/** Fields that admins alone read: what agents answered is for those who may see the run. */
const forAdmins: Readonly<Record<string, readonly string[]>> = { [fleetEvents.name]: ['result'] }

const record = Type.Object(
  {
    partition: Type.Integer(),
    offset: Type.Integer({ description: 'Rises within the partition, not always by one.' }),
    timestamp: time,
    key: orNull(Type.String()),
    headers: Type.Record(Type.String(), Type.String()),
    value: Type.Unknown({
      description:
        'Decoded by the schema of the topic; null is a tombstone: the key is deleted. Bytes are base64 (of internal topics their size). ' +
        'Of `fleet.events` callers who are no admins get no `result`.',
    }),
    fault: Type.Optional(
      Type.String({ description: 'Why the value could not be decoded; then it is its size as text.' }),
    ),
  },
  { title: 'TopicRecord' },
)
const page = Type.Object(
  {
    records: Type.Array(record, { description: 'In order within each partition.' }),
    next: Type.String({
      description: 'The position behind them: send it as `from`.',
      examples: ['0:12,1:40'],
    }),
  },
  { title: 'TopicRecords' },
)

const params = Type.Object({ topic: name('A topic of the platform.', 'hub.records') }, closed)
const query = Type.Object(
  {
    from: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: positionLengthMax,
        description:
          '`beginning` (default), `end`, or a position: the next offset of each partition, as `0:12,1:40`, after `topics grow` of a compacted topic with its epoch in front, as `e2/0:12`. A partition that is not named begins at its first record.',
        examples: ['beginning'],
      }),
    ),
    limit: Type.Optional(
      wholeNumber(`Of a page: 1 to ${limitMax}, by default ${limitDefault}; 4 MiB at most.`, '100'),
    ),
    wait: Type.Optional(
      wholeNumber(
        `Of a page without records: so many seconds are waited for one, 1 to ${waitSecondsMax}; by default none.`,
        '1',
      ),
    ),
  },
  closed,
)
const headers = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({
      maxLength: positionLengthMax,
      description:
        'The id of the last event that was received: the stream goes on behind it, whatever `from` says.',
    }),
  ),
})

const sample = `curl -sS "${serverMark}/api/v1/log/topics/hub.records/records?from=beginning&limit=10" \\
  -H "Authorization: Bearer $ID_TOKEN"`

const description = `Every record, decoded, in the order of its partition, and none twice: keep \`next\` with what you made of the page, and send it as \`from\`.
Pages are fair over the partitions. \`hub.records\` and \`fleet.events\` are for every role, all others for admins. Records of \`fleet.events\` have
no \`result\` for callers who are no admins: it says what agents answered, which is for those who may see the run. Internal topics
are served as well, but may change with any release.

410 \`position_expired\`: the log does not hold that position any more (retention), or \`topics grow\` copied a compacted topic, whose
offsets began again under a new epoch. \`earliest\` is where to go on; a copy is best made again from there. Where a topic grew in place,
a position without the new partitions begins them at their first record.

With \`Accept: text/event-stream\` the records come as server-sent events until the caller leaves, or the token ends. An event without a
name is a record, its id the position behind it: \`Last-Event-ID\` resumes without a gap or a repeat. \`ready\`: \`{next}\`, first of all.
\`end\`: \`{code}\`, why it ends. A heartbeat every 15 seconds carries the position, too.

A page that waits, like a stream, holds one of the caller's 10 places for streams, and no slot of its concurrency.`

interface Route {
  Params: Static<typeof params>
  Querystring: Static<typeof query>
  Headers: Static<typeof headers>
}

export function registerLogRecords(scope: FastifyInstance, main: MainApi): void {
  const platform = operatedBy(main.context)
  scope.get<Route>(
    '/log/topics/:topic/records',
    {
      config: {
        problems: [
          'forbidden',
          'not_found',
          'position_expired',
          'too_many_streams',
          'log_unavailable',
          'registry_unavailable',
        ],
        sample,
      },
      schema: {
        operationId: 'readTopicRecords',
        tags: ['log'],
        summary: 'Read the records of a topic from a position on',
        description,
        params,
        querystring: query,
        headers,
        response: { 200: page },
      },
    },
    async (request, reply) => {
      const { topic } = request.params
      refuseOthers(request, topic)
      const withheld = withheldFrom(request, topic)
      const { from = 'beginning', limit = String(limitDefault), wait } = request.query
      const lastEventId = request.headers['last-event-id']
      if (acceptsEvents(request.headers.accept)) {
        const begin =
          lastEventId === undefined ? { from, field: '/from' } : { from: lastEventId, field: 'Last-Event-ID' }
        // Before the stream is open, refusals are problem documents.
        const opened = await openRecords(platform, { topic, ...begin, withheld })
        const caller = callerOf(request).uid
        return main.streams.answer(request, reply, (stream, signal) =>
          send(main, caller, opened, stream, signal),
        )
      }
      const asked = {
        limit: numberBetween(1, limitMax, 'limit', limit),
        waitMs: wait === undefined ? 0 : numberBetween(1, waitSecondsMax, 'wait', wait) * 1_000,
      }
      const opened = await openRecords(platform, { topic, from, field: '/from', withheld })
      return main.streams.hold(request, reply, async (signal) => {
        const read = await readPage(opened, { ...asked, signal })
        await main.readTurns.take(callerOf(request).uid, read.bytes, signal)
        return { records: read.records, next: read.next }
      })
    },
  )
}

/** Throws AppError `forbidden`. */
function refuseOthers(request: FastifyRequest, topic: string): void {
  if (forEveryRole.includes(topic) || callerOf(request).access === 'admin') return
  throw new AppError(
    'forbidden',
    `This topic needs the role admin; every role may read ${forEveryRole.join(' and ')}.`,
  )
}

function withheldFrom(request: FastifyRequest, topic: string): readonly string[] {
  return callerOf(request).access === 'admin' ? [] : (forAdmins[topic] ?? [])
}

function send(
  { readTurns, recordTexts }: MainApi,
  caller: string,
  opened: OpenedRecords,
  stream: EventStream,
  signal: AbortSignal,
): Promise<void> {
  const next = positionOf(opened)
  stream.send({ event: 'ready', id: next, data: { next } })
  const reader = {
    show: (record: StoredRecord) => recordTexts.of(opened, record),
    room: stream.room,
    async record(id: string, text: string) {
      stream.send({ id, data: new Json(text) })
      await readTurns.take(caller, text.length, signal)
    },
    passed: stream.mark,
  }
  return streamRecords(opened, reader, { signal })
}
