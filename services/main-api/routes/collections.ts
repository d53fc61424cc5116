/** /api/v1/collections: the collections, and searches of them by text. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { searchCollectionOperation, searchFilter } from '#operations/collections-search.ts'
import { statsOperation } from '#operations/stats.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { closed } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { name, time } from '../schemas.ts'

const textLengthMax = 8_192
const hitsMax = 100

const collections = Type.Object(
  {
    collections: Type.Array(
      Type.Object({
        collection: Type.String(),
        points: Type.Integer(),
        index_bytes: Type.Integer(),
        index_status: Type.String(),
        indexed_share: Type.Number(),
      }),
    ),
    as_of: time,
  },
  { title: 'Collections' },
)

const params = Type.Object({ collection: name('A collection.', 'fleet_notes', 64) }, closed)

const search = Type.Object(
  {
    text: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: textLengthMax,
        description: "What is looked for; the platform's embedder makes a vector of it.",
      }),
    ),
    like: Type.Optional(name('Instead of a text: the id of a point. Its neighbours are found.', 'note-7')),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: hitsMax, description: 'By default 10.' })),
    score_threshold: Type.Optional(Type.Number({ description: 'Hits below this score are left out.' })),
    filter: Type.Optional(searchFilter),
  },
  {
    ...closed,
    title: 'CollectionSearch',
    examples: [{ text: 'Where is the courier deployed?', limit: 5 }],
  },
)

const found = Type.Object(
  {
    results: Type.Array(
      Type.Object({
        id: Type.String(),
        score: Type.Number({ description: 'Cosine similarity.' }),
        payload: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      }),
      { description: 'By falling score, ties by id.' },
    ),
    took_ms: Type.Integer(),
    records_scanned: Type.Integer({ description: 'Points that were eligible.' }),
  },
  { title: 'FoundPoints' },
)

export function registerCollections(scope: FastifyInstance, { context }: MainApi): void {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.get(
    '/collections',
    {
      config: { problems: ['forbidden', 'vector_engine_unavailable'] },
      schema: {
        operationId: 'listCollections',
        tags: ['state'],
        summary: 'The collections and their indexes',
        response: { 200: collections },
      },
    },
    async (request) => {
      const { collections: listed, as_of } = await operate(context, request, statsOperation, {})
      return { collections: listed, as_of }
    },
  )
  routes.post(
    '/collections/:collection/search',
    {
      config: {
        problems: [
          'forbidden',
          'collection_not_found',
          'point_not_found',
          'embedder_unavailable',
          'vector_engine_unavailable',
        ],
      },
      schema: {
        operationId: 'searchCollection',
        tags: ['state'],
        summary: 'Find the points of a collection that are nearest to a text',
        params,
        body: search,
        response: { 200: found },
      },
    },
    async (request) => {
      const { limit = 10, ...given } = request.body
      if ((given.text === undefined) === (given.like === undefined)) {
        throw validationFailed([{ path: '', message: 'must have either text or like' }])
      }
      const args = { collection: request.params.collection, limit, ...given }
      const { results, took_ms, records_scanned } = await operate(
        context,
        request,
        searchCollectionOperation,
        args,
      )
      const shown = results.map(({ id, score, payload = {} }) => ({ id, score, payload }))
      return { results: shown, took_ms, records_scanned }
    },
  )
}
