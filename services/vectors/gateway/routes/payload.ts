/** POST /v1/vectors/payload: sets or removes keys of the payloads of points, whose vectors stay. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { isReserved, reservedId } from '#engines/vectors/collections.ts'
import type { HeldPoint } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { OutgoingMessage, Position } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { changedPayload, type PayloadChange, readPayloadChange } from '../../accept/payload-change.ts'
import { pointsPerPiece } from '../../accept/points.ts'
import type { NamedCollection } from '../../collections/registry.ts'
import { newOperationNumber } from '../../read/operations/operations.ts'
import { basisHeaders, recordValue } from '../../write/based-records.ts'
import type { Gateway } from '../gateway.ts'
import {
  acceptedOperation,
  closedObject,
  collection,
  payload,
  pointId,
  readProblems,
  waitQuery,
  writeProblems,
} from '../schemas.ts'
import { accept, publishTimeoutMs } from './writes.ts'

const idsMax = 1_000
const keysMax = 1_000
/** So long a change waits for the writes before it, whose points it may name. */
const earlierMs = 2_000

const payloadBody = closedObject(
  {
    collection,
    ids: Type.Array(pointId, { minItems: 1, maxItems: idsMax }),
    set: Type.Optional({
      ...payload,
      description: 'Keys of the payload and their new values; whole values, not parts of them.',
    }),
    remove: Type.Optional(
      Type.Array(Type.String(), {
        maxItems: keysMax,
        description: 'Keys of the payload to take away. One that a point lacks is no fault.',
        examples: [['draft']],
      }),
    ),
  },
  { title: 'PayloadRequest', description: 'With at least one key in set or remove.' },
)

const answer = closedObject(
  {
    ...acceptedOperation.properties,
    unknown: Type.Integer({ description: 'How many of the ids have no point: nothing is written for them.' }),
  },
  {
    title: 'AcceptedPayload',
    description: 'In the log; with status applied also in the vector engine. points: how many are changed.',
  },
)

export function registerPayload(scope: FastifyInstance, gateway: Gateway): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/payload',
    {
      onRequest: leastAccess('member'),
      config: {
        operation: 'payload',
        problems: [...new Set([...writeProblems, ...readProblems, 'overloaded' as const])],
      },
      schema: {
        operationId: 'setPayload',
        tags: ['vectors'],
        summary: 'Change payloads without vectors',
        description:
          'Sets and removes keys of the payloads of points; their vectors, other keys and expiry stay. In order with all other ' +
          'writes of a point: a write by others in between is kept, but for these keys. A point whose payload would pass ' +
          '64 KiB keeps its own, and the operation fails. The key `text` cannot be changed: upsert the point.',
        body: payloadBody,
        querystring: waitQuery,
        response: { 200: answer, 202: answer },
      },
    },
    async (request, reply) => {
      const ids = [...new Set(request.body.ids)]
      const change = readPayloadChange(request.body)
      const collection = await gateway.collections.require(request.body.collection)
      if (ids.some((id) => isReserved(collection.name, id))) throw reservedId()
      let changed = 0
      const publish = async (headers: Record<string, string>) => {
        const positions = await publishChanged(gateway, { collection, ids, change, headers })
        changed = positions.length
        return positions
      }
      const parts = { gateway, request, reply, collection, points: ids.length, publish }
      const accepted = await accept(parts, (publishAs) => publishAs(newOperationNumber()))
      return { ...accepted, unknown: ids.length - changed } as Static<typeof answer>
    },
  )
}

interface Asked {
  collection: NamedCollection
  ids: readonly string[]
  change: PayloadChange
  headers: Record<string, string>
}

/**
 * Piece by piece, since each point is read, and published as a whole. Resolves with the positions of the points that exist. Throws AppError
 * `not_yet_applied` while earlier writes wait that may make those that do not; some may be published then.
 */
async function publishChanged(
  gateway: Gateway,
  { collection, ids, change, headers }: Asked,
): Promise<Position[]> {
  const { publisher, engines } = gateway.context
  const { stored } = collection
  const isUpToDate = await gateway.progress.reached(await endsBefore(gateway, stored, ids), earlierMs)
  const positions: Position[] = []
  let unknown = 0
  for (let from = 0; from < ids.length; from += pointsPerPiece) {
    const piece = ids.slice(from, from + pointsPerPiece)
    const held = await engines.vectors.held(stored, piece)
    const records = held.flatMap((one) => recordOf(collection, one, change, headers) ?? [])
    unknown += piece.length - records.length
    if (records.length === 0) continue
    positions.push(...(await publisher.publish(vectorsCommands, records, { timeoutMs: publishTimeoutMs })))
  }
  if (unknown > 0 && !isUpToDate) {
    const message = 'Some of these points are not there, and earlier writes wait to be applied.'
    throw new AppError('not_yet_applied', message, { retryAfter: 1 })
  }
  return positions
}

/** The last record so far of each partition that holds one of these points. */
async function endsBefore(
  { context }: Pick<Gateway, 'context'>,
  stored: string,
  ids: readonly string[],
): Promise<Position[]> {
  const { physicalName, partitions } = context.publisher.locationOf(vectorsCommands)
  const own = new Set(
    ids.map((id) => partitionOf(Buffer.from(vectorsCommands.key({ collection: stored, id })), partitions)),
  )
  const ranges = await context.engines.eventLog.offsets(physicalName)
  return ranges
    .filter(({ partition, start, end }) => own.has(partition) && end > start)
    .map(({ partition, end }) => ({ partition, offset: end - 1 }))
}

/** The whole point as it becomes; as it is where the change is too much, which the writer then finds, too. */
function recordOf(
  { stored, making }: NamedCollection,
  { id, position, point }: HeldPoint,
  change: PayloadChange,
  headers: Record<string, string>,
): OutgoingMessage<{ collection: string; id: string }, VectorUpsert> | undefined {
  if (!point) return undefined
  const changed = changedPayload(point.payload, change)
  // A point of a release that kept no position is older than any other.
  const basis = basisHeaders(position ?? { epoch: 0, offset: 0 }, { change })
  return {
    key: { collection: stored, id },
    value: { ...recordValue(point), ...('json' in changed ? { payload: changed.json } : {}), making },
    headers: { ...headers, ...basis },
  }
}
