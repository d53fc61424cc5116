/** GET /v1/stats: what the collections hold and how their indexes are, and how long searches took here. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { observeCollections, windowS } from '../../read/observed.ts'
import type { Gateway } from '../gateway.ts'

const collectionStats = Type.Object(
  {
    collection: Type.String(),
    points: Type.Integer(),
    index_bytes: Type.Integer({ description: 'Size of the index and its points.' }),
    index_status: Type.Enum(['ready', 'indexing', 'rebuilding', 'unavailable'], { type: 'string' }),
    indexed_share: Type.Number({
      description: '0..1: the share of points that the graph index serves; the rest is scanned.',
    }),
  },
  { title: 'CollectionStats' },
)

const answer = Type.Object(
  {
    collections: Type.Array(collectionStats),
    search: Type.Object({
      p95_ms: Type.Union([Type.Number(), Type.Null()], {
        description: 'Of the searches that this instance answered within the window; null without any.',
      }),
      requests: Type.Integer(),
      window_s: Type.Integer(),
    }),
    as_of: Type.String({ format: 'date-time' }),
  },
  { title: 'Stats' },
)

export function registerStats(scope: FastifyInstance, gateway: Gateway): void {
  const { vectors } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/stats',
    {
      config: { problems: ['vector_engine_unavailable', 'relational_engine_unavailable'] },
      schema: {
        operationId: 'getStats',
        tags: ['platform'],
        summary: 'Points, index size and index status of each collection, p95 of searches',
        response: { 200: answer },
      },
    },
    async (): Promise<Static<typeof answer>> => {
      const observed = await observeCollections(vectors, gateway.collections.list)
      return {
        collections: observed,
        search: {
          p95_ms: gateway.searchLatencies.quantile(0.95),
          requests: gateway.searchLatencies.count(),
          window_s: windowS,
        },
        as_of: new Date().toISOString(),
      }
    },
  )
}
