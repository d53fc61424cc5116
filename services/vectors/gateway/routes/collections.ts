/** GET and POST /v1/collections, GET and DELETE /v1/collections/{name}, POST /v1/collections/{name}/indexes. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { withoutNul } from '#runtime/http/validation.ts'
import { writeAdminAction } from '#services/access/admin-audit/admin-audit.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import {
  idempotencyHeaders,
  idempotencyProblems,
  idempotent,
  idOfSeed,
} from '#services/access/idempotency.ts'
import { addPayloadIndex, payloadIndexesMax, payloadIndexTypes } from '../../collections/payload-indexes.ts'
import { type Collection, createCollection, deleteCollection } from '../../collections/rows.ts'
import {
  collectionDescription,
  collectionNameField,
  collectionView,
  deletedCollection,
} from '../../collections/shapes.ts'
import { observeCollections } from '../../read/observed.ts'
import type { Gateway } from '../gateway.ts'
import { absentOr, closedObject } from '../schemas.ts'

const body = closedObject(
  { name: collectionNameField, description: absentOr(collectionDescription) },
  { title: 'NewCollection', examples: [{ name: 'tea', description: 'What the shop knows of its teas' }] },
)
const indexBody = closedObject(
  {
    key: Type.String({
      minLength: 1,
      maxLength: 512,
      ...withoutNul,
      description: 'A payload key; a dotted one is a path.',
      examples: ['priority'],
    }),
    type: Type.Enum([...payloadIndexTypes], {
      type: 'string',
      description: 'The values that the filters look for.',
      examples: ['number'],
    }),
  },
  { title: 'NewPayloadIndex' },
)
const payloadIndex = closedObject(
  {
    collection: Type.String(),
    key: Type.String(),
    type: Type.Enum([...payloadIndexTypes], { type: 'string' }),
  },
  { title: 'PayloadIndex', examples: [{ collection: 'tea', key: 'priority', type: 'number' }] },
)
const params = closedObject({ name: Type.String({ examples: ['tea'] }) })
const list = Type.Object({ collections: Type.Array(collectionView) }, { title: 'CollectionList' })

const away = ['vector_engine_unavailable', 'relational_engine_unavailable'] as const
const tags = ['collections']

export function registerCollections(scope: FastifyInstance, gateway: Gateway): void {
  const app = scope.withTypeProvider<TypeBoxTypeProvider>()
  const { vectors, relational } = gateway.context.engines

  app.get(
    '/collections',
    {
      config: { problems: away },
      schema: {
        operationId: 'listVectorCollections',
        tags,
        summary: 'The collections',
        response: { 200: list },
      },
    },
    async () => {
      const observed = await observeCollections(vectors, gateway.collections.list)
      return { collections: observed.map((one) => ({ ...one, name: one.collection })) }
    },
  )
  app.post(
    '/collections',
    {
      onRequest: leastAccess('member'),
      config: {
        problems: [
          'forbidden',
          'collection_exists',
          'too_many_collections',
          'relational_engine_unavailable',
          'log_unavailable',
          ...idempotencyProblems,
        ],
      },
      schema: {
        operationId: 'createVectorCollection',
        tags,
        summary: 'Make a collection',
        description:
          'It is there for every instance when this is answered. Vectors have 1,536 numbers and are compared by cosine.',
        body,
        headers: idempotencyHeaders,
        response: { 201: collectionView },
      },
    },
    (request, reply) =>
      idempotent(gateway, request, reply, async (seed) => {
        const { name, description } = request.body
        const made = await createCollection(
          relational,
          {
            name,
            description: description ?? null,
            createdBy: callerOf(request).agentId,
            requestId: request.id,
            ...(seed === undefined
              ? {}
              : { making: idOfSeed(seed, 'making').replaceAll('-', '').slice(0, 10) }),
          },
          (tx, { name, making }) => note(tx, request, 'collection.create', name, { making }),
        )
        reply.code(201)
        return viewOf(made, 0)
      }),
  )
  app.get(
    '/collections/:name',
    {
      config: { problems: ['collection_not_found', ...away] },
      schema: {
        operationId: 'getVectorCollection',
        tags,
        summary: 'A collection',
        params,
        response: { 200: collectionView },
      },
    },
    async (request) => {
      const { stored, name } = await gateway.collections.require(request.params.name)
      const [points, all] = await Promise.all([vectors.count(stored), gateway.collections.list()])
      const found = all.find((one) => one.stored === stored)
      // Null where it was deleted this moment.
      return found ? viewOf(found, points) : (gateway.collections.require(name) as never)
    },
  )
  app.delete(
    '/collections/:name',
    {
      onRequest: leastAccess('admin'),
      config: {
        problems: [
          'forbidden',
          'collection_not_found',
          'collection_fixed',
          'relational_engine_unavailable',
          'log_unavailable',
        ],
      },
      schema: {
        operationId: 'deleteVectorCollection',
        tags,
        summary: 'Delete a collection with all its points',
        description:
          'No instance shows anything of it when this is answered. Made again under its name, it is empty. The four of the platform stay.',
        params,
        response: { 200: deletedCollection },
      },
    },
    async (request): Promise<Static<typeof deletedCollection>> => {
      const { name } = await deleteCollection(
        relational,
        { name: request.params.name, deletedBy: callerOf(request).agentId, requestId: request.id },
        (tx, { name, making }) => note(tx, request, 'collection.delete', name, { making }),
      )
      return { name, deleted: true }
    },
  )
}

export function registerPayloadIndexes(scope: FastifyInstance, gateway: Gateway): void {
  const app = scope.withTypeProvider<TypeBoxTypeProvider>()
  const { vectors, relational } = gateway.context.engines
  app.post(
    '/collections/:name/indexes',
    {
      onRequest: leastAccess('member'),
      config: { problems: ['forbidden', 'collection_not_found', 'conflict', ...away] },
      schema: {
        operationId: 'createPayloadIndex',
        tags,
        summary: 'Make filters on a payload key faster',
        description:
          `For keys that filters of a large collection use often; the answers stay as they are. Equality (\`match.value\`, ` +
          `\`match.any\`) needs none. At most ${payloadIndexesMax} a collection; the same again is no fault.`,
        params,
        body: indexBody,
        response: { 200: payloadIndex },
      },
    },
    async (request): Promise<Static<typeof payloadIndex>> => {
      const { key, type } = request.body
      const { name, stored } = await gateway.collections.require(request.params.name)
      const { agentId } = callerOf(request)
      const noteIndex = (tx: Parameters<typeof writeAdminAction>[0]) =>
        note(tx, request, 'collection.index', name, { key, type })
      await addPayloadIndex(relational, stored, { key, type }, noteIndex, agentId)
      await vectors.indexPayload(stored, key, type)
      return { collection: name, key, type }
    },
  )
}

function viewOf({ name, description, created_by, created_at }: Collection, points: number) {
  return { name, description, points, created_by, created_at: created_at.toISOString() }
}

async function note(
  tx: Parameters<typeof writeAdminAction>[0],
  request: FastifyRequest,
  action: string,
  target: string,
  after: object,
): Promise<void> {
  const { kind, uid: id } = callerOf(request)
  await writeAdminAction(tx, {
    actor: { kind, id },
    action,
    target,
    after,
    requestId: request.id,
    outcome: 'done',
  })
}
