/** POST /v1/vectors/scroll. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import type { ScrolledPoint, ScrollQuery } from '#engines/vectors/port.ts'
import { withAudit } from '#services/audit/trail/audited.ts'
import type { Gateway } from '../gateway.ts'
import { requireCollection } from '../points/point.ts'
import {
  after,
  afterProblems,
  answeredVector,
  closedObject,
  collection,
  filter,
  limit,
  payload,
  pointId,
} from '../schemas.ts'

const body = closedObject(
  {
    collection,
    limit: Type.Optional(limit),
    offset: Type.Optional(pointId),
    filter: Type.Optional(filter),
    with_payload: Type.Optional(Type.Boolean({ default: true })),
    with_vector: Type.Optional(Type.Boolean({ default: false })),
    after,
  },
  { title: 'ScrollRequest' },
)

const answer = Type.Object(
  {
    points: Type.Array(
      Type.Object(
        { id: Type.String(), payload: Type.Optional(payload), vector: Type.Optional(answeredVector) },
        { title: 'ScrolledPoint' },
      ),
    ),
    next_offset: Type.Union([Type.String(), Type.Null()], {
      description: 'The offset of the next page; null at the end.',
    }),
  },
  {
    title: 'ScrollAnswer',
    description: 'A page of points.',
    examples: [{ points: [{ id: 'a', payload: { title: 'A' } }], next_offset: null }],
  },
)

export function registerScroll(scope: FastifyInstance, gateway: Gateway): void {
  const { vectors } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/scroll',
    {
      config: {
        operation: 'scroll',
        problems: ['collection_not_found', 'vector_engine_unavailable', ...afterProblems],
      },
      schema: {
        operationId: 'scrollPoints',
        tags: ['vectors'],
        summary: 'Read a collection page by page',
        body,
        response: { 200: answer },
      },
    },
    async (request, reply) => {
      const given = request.body
      const name = requireCollection(given.collection)
      const query = queryOf(given)
      const page = await withAudit(gateway, request, reply, { collection: name }, async () => {
        if (given.after !== undefined) await gateway.operations.after(given.after)
        return vectors.scroll(name, query)
      })
      return {
        points: given.with_vector ? page.points.map(withPlainVector) : page.points,
        next_offset: page.next,
      } as Static<typeof answer>
    },
  )
}

function queryOf(given: Static<typeof body>): ScrollQuery {
  return {
    limit: given.limit ?? 10,
    withPayload: given.with_payload ?? true,
    withVector: given.with_vector ?? false,
    ...(given.offset === undefined ? {} : { offset: given.offset }),
    ...(given.filter === undefined ? {} : { filter: given.filter }),
  }
}

function withPlainVector(point: ScrolledPoint) {
  return point.vector ? { ...point, vector: Array.from(point.vector) } : point
}
