/** GET /fleet_notes/events and /goals/events: changes as they come. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { serverMark } from '#runtime/http/api/facts.ts'
import { Json } from '#runtime/http/event-stream.ts'
import type { HubRecord } from '#schemas/types.ts'
import type { CallerStreams } from '#services/access/limits/caller-streams.ts'
import type { RecordRow } from '#services/records/store/kind.ts'
import type { Resource } from '../resource.ts'
import { type Feed, readEventId, streamChanges } from './feed.ts'

export interface EventParts {
  feed: Feed
  streams: CallerStreams
}

const headers = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({ description: 'The id of the last event that was received: the stream goes on behind it.' }),
  ),
})

const description = `Server-sent events until the caller leaves, or its credential ends.

An event without a name has the newest state, as a list would show it. Intermediate states may be missing, and a state may come
twice. \`ready\`: the stream has begun, and what changes from now on comes. \`reset\`: what came since the last event cannot be
said, because the log does not hold it or the caller read too slowly: list again. \`end\`: \`{code}\`, why it ends.

Each id is opaque. Sent as \`Last-Event-ID\` it continues the stream behind that event, at any instance. To miss nothing, open
the stream first, then list.`

export function registerEvents<Row extends RecordRow>(
  scope: FastifyInstance,
  { feed, streams }: EventParts,
  { kind, path, tag, names, view }: Pick<Resource<Row>, 'kind' | 'path' | 'tag' | 'names' | 'view'>,
): void {
  const title = `${names.one}Events`
  const texts = new WeakMap<HubRecord, Json>()
  /** As a list shows its row. */
  function viewOf(record: HubRecord): object {
    const times = { created_at: new Date(record.created_at), updated_at: new Date(record.updated_at) }
    const own = { [kind.title]: record.title, [kind.text]: record.text }
    return view({ ...record, ...own, ...times } as unknown as Row)
  }
  function text(record: HubRecord): Json {
    const made = texts.get(record) ?? new Json(JSON.stringify(viewOf(record)))
    texts.set(record, made)
    return made
  }
  // It would go on for ever.
  const sample = (prefix: string) => `curl -sSN --max-time 5 "${serverMark}${prefix}${path}/events" \\
  -H "Authorization: Bearer $ID_TOKEN" || true`
  scope.route({
    method: 'GET',
    url: `${path}/events`,
    config: { problems: ['forbidden', 'too_many_streams', 'log_unavailable'], sample },
    schema: {
      operationId: `follow${names.many}`,
      tags: [tag],
      summary: `Follow the changes of ${tag}`,
      description,
      headers,
      response: {
        200: {
          content: { 'text/event-stream': { schema: Type.String({ title }) } },
          title,
          description: 'Events, as above.',
        },
      },
    },
    async handler(request, reply) {
      const lastEventId = request.headers['last-event-id'] as string | undefined
      const resumed = lastEventId === undefined ? null : readEventId(lastEventId)
      await feed.ready()
      return streams.answer(request, reply, (stream, signal) =>
        streamChanges({ feed, stream, kind: kind.name, text, resumed, signal }),
      )
    },
  })
}
