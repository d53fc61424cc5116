/** GET /api/v1/log/topics/{topic}/tail: a live look at the decoded records of a topic, as an event stream. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { type Static, Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { findTopic } from '#operations/find-topic.ts'
import type { OperatedPlatform } from '#operations/operation.ts'
import { readPosition } from '#operations/topic-stream/position.ts'
import {
  type StreamReader,
  type StreamStart,
  shownPerSecond,
  streamTopic,
  type TopicStreamArgs,
  valueLengthMax,
} from '#operations/topic-stream/topic-stream.ts'
import { serverMark } from '#runtime/http/api/facts.ts'
import type { EventStream } from '#runtime/http/event-stream.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import type { MainApi } from '../main-api.ts'
import { operatedBy } from '../operate.ts'
import { closed, name, wholeNumber } from '../schemas.ts'

const newestMax = 10_000

const params = Type.Object({ topic: name('A topic of the platform.', 'agents.changes') }, closed)
const query = Type.Object(
  {
    partition: Type.Optional(wholeNumber('Only this partition.', '3')),
    key: Type.Optional(name('Only records with exactly this key.', 'whale', 1_024)),
    header: Type.Optional(
      Type.String({
        pattern: '^[^:]{1,128}:',
        rule: 'a header as name:value',
        maxLength: 1_024,
        description: 'Only records with this header, as `name:value`.',
        examples: ['agent:whale'],
      }),
    ),
    q: Type.Optional(
      name('Only records whose key, headers or decoded value hold this text, in any case.', 'gateway', 200),
    ),
    from: Type.Optional(
      Type.String({
        pattern: '^(beginning|end|-?\\d{1,15})$',
        rule: 'beginning, end, -n for the newest n, or an offset',
        description: `\`end\` (default): what comes from now on; \`beginning\`; \`-n\`: also the newest n of each partition, at most ${newestMax}; a number: from this offset on, with \`partition\`.`,
        examples: ['-10'],
      }),
    ),
  },
  closed,
)
const headers = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({
      description: 'The id of the last event that was received: the stream continues behind it.',
    }),
  ),
})

/** It would go on for ever. */
const sample = `curl -sSN --max-time 5 "${serverMark}/api/v1/log/topics/agents.changes/tail?from=-10" \\
  -H "Authorization: Bearer $ID_TOKEN" || true`

const description = `Server-sent events until the caller leaves, or the token ends.

An event without a name is a record: \`{partition, offset, timestamp, key, headers, value, of}\`. At most ${shownPerSecond} are
shown a second: what lay in the log when the stream began comes whole, and of what comes later one is shown for \`of\` records.
Of a value longer than ${valueLengthMax} characters the beginning is shown as text, with \`cut: {length}\`. \`fault\` says why a
value could not be decoded.

\`skipped\`: \`{records, reason}\`, left out because the caller reads too slowly (\`slow\`), because more came than are shown
(\`rate\`), or because the log does not hold them any more (\`expired\`). \`reset\`: the log was replaced since the last event, and
the stream begins as \`from\` says. \`end\`: \`{code}\`, why it ends.

Each id is a position in all partitions. Sent as \`Last-Event-ID\` it continues the stream behind that event; then what came meanwhile comes whole.`

export function registerLogTail(scope: FastifyInstance, main: MainApi): void {
  const platform = operatedBy(main.context)
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/log/topics/:topic/tail',
    {
      config: {
        problems: ['forbidden', 'not_found', 'too_many_streams', 'log_unavailable'],
        sample,
      },
      schema: {
        operationId: 'tailTopic',
        tags: ['log'],
        summary: 'Follow the decoded records of a topic',
        description,
        params,
        querystring: query,
        headers,
        response: {
          200: {
            content: {
              'text/event-stream': { schema: Type.String({ title: 'TopicEvents' }) },
            },
            title: 'TopicEvents',
            description: 'Events, as above.',
          },
        },
      },
    },
    async (request, reply) => {
      const { topic } = request.params
      const args = argsOf(topic, request.query, request.headers['last-event-id'])
      refuseUnknown(platform, args)
      // The schema describes its contents.
      return main.streams.answer(request, reply as FastifyReply, (stream, signal) =>
        streamTopic(platform, args, readerOf(stream), signal),
      ) as never
    },
  )
}

/** Throws AppError `not_found` for a missing topic or partition, `validation_failed` for an invalid id. */
function refuseUnknown(platform: OperatedPlatform, { topic, filter, lastEventId }: TopicStreamArgs): void {
  const { partitions } = platform.publisher.locationOf(findTopic(topic))
  if (filter.partition !== undefined && filter.partition >= partitions) {
    throw new AppError('not_found', `${topic} has the partitions 0 to ${partitions - 1}.`)
  }
  if (lastEventId !== undefined) readPosition(lastEventId, 'Last-Event-ID')
}

function argsOf(
  topic: string,
  { partition, key, header, q, from = 'end' }: Static<typeof query>,
  lastEventId: string | undefined,
): TopicStreamArgs {
  const colon = header?.indexOf(':') ?? -1
  return {
    topic,
    filter: {
      ...(partition === undefined ? {} : { partition: Number(partition) }),
      ...(key === undefined ? {} : { key }),
      ...(header === undefined
        ? {}
        : { header: { name: header.slice(0, colon), value: header.slice(colon + 1) } }),
      ...(q === undefined ? {} : { q }),
    },
    from: startOf(from, partition),
    ...(lastEventId === undefined ? {} : { lastEventId }),
  }
}

/** Throws AppError `validation_failed`. */
function startOf(from: string, partition: string | undefined): StreamStart {
  if (from === 'beginning' || from === 'end') return from
  const number = Number(from)
  if (from.startsWith('-')) return { newest: Math.min(-number, newestMax) }
  if (partition !== undefined) return { offset: number }
  throw validationFailed([{ path: '/from', message: 'is an offset: name its partition' }])
}

function readerOf(stream: EventStream): StreamReader {
  return {
    hasRoom: stream.hasRoom,
    room: stream.room,
    record: (id, record) => stream.send({ id, data: record }),
    skipped: (id, skipped) => stream.send({ event: 'skipped', id, data: skipped }),
    reset: (id) => stream.send({ event: 'reset', id, data: {} }),
    passed: stream.mark,
  }
}
