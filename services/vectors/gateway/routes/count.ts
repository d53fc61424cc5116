/** GET /v1/vectors/count; POST takes the filter in its body. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Filter } from '#engines/vectors/port.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { filterShape, readFilter } from '../../accept/filters.ts'
import type { Gateway } from '../gateway.ts'
import { after, closedObject, collection, readProblems } from '../schemas.ts'

const querystring = closedObject({
  collection,
  filter: Type.Optional(
    Type.String({
      description: 'A Filter as JSON.',
      examples: ['{"must":[{"key":"status","match":{"value":"active"}}]}'],
    }),
  ),
  after,
})

const body = closedObject(
  { collection, filter: Type.Optional(filterShape), after },
  { title: 'CountRequest' },
)

const answer = Type.Object(
  { collection: Type.String(), count: Type.Integer() },
  {
    title: 'CountAnswer',
    description: 'The exact number.',
    examples: [{ collection: 'knowledgebase', count: 20_000 }],
  },
)

const config = { operation: 'count', problems: readProblems } as const

export function registerCount(scope: FastifyInstance, gateway: Gateway): void {
  const app = scope.withTypeProvider<TypeBoxTypeProvider>()
  const described = { tags: ['vectors'], response: { 200: answer } }
  app.get(
    '/count',
    {
      config,
      schema: {
        ...described,
        operationId: 'countPoints',
        summary: 'Count the points of a collection, exactly',
        querystring,
      },
    },
    (request, reply) => {
      const { filter, ...given } = request.query
      return count({ gateway, request, reply }, given, () => parseFilter(filter))
    },
  )
  app.post(
    '/count',
    {
      config,
      schema: {
        ...described,
        operationId: 'countFilteredPoints',
        summary: 'Count the points that a filter lets through, exactly',
        body,
      },
    },
    (request, reply) =>
      count({ gateway, request, reply }, request.body, () => readFilter(request.body.filter)),
  )
}

async function count(
  { gateway, request, reply }: { gateway: Gateway; request: FastifyRequest; reply: FastifyReply },
  { collection, after }: { collection: string; after?: string },
  filterOf: () => Filter | undefined,
): Promise<Static<typeof answer>> {
  const { name, stored } = await gateway.collections.require(collection)
  const parsed = filterOf()
  const counted = await withAudit(gateway, request, reply, { collection: name }, async () => {
    if (after !== undefined) await gateway.operations.after(after)
    return gateway.context.engines.vectors.count(stored, parsed)
  })
  return { collection: name, count: counted }
}

function parseFilter(text: string | undefined): Filter | undefined {
  if (text === undefined) return undefined
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw validationFailed([{ path: '/filter', message: 'JSON of a filter' }])
  }
  return readFilter(value)
}
