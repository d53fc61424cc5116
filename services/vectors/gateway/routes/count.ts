/** GET /v1/vectors/count. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { Filter } from '#engines/vectors/port.ts'
import { compileCheck, validationFailed } from '#runtime/http/validation.ts'
import { withAudit } from '#services/audit/trail/audited.ts'
import type { Gateway } from '../gateway.ts'
import { requireCollection } from '../points/point.ts'
import { after, afterProblems, closedObject, collection, filter } from '../schemas.ts'

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

const answer = Type.Object(
  { collection: Type.String(), count: Type.Integer() },
  {
    title: 'CountAnswer',
    description: 'The exact number.',
    examples: [{ collection: 'knowledgebase', count: 20_000 }],
  },
)

const checkFilter = compileCheck(filter)

export function registerCount(scope: FastifyInstance, gateway: Gateway): void {
  const { vectors } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/count',
    {
      config: {
        operation: 'count',
        problems: ['collection_not_found', 'vector_engine_unavailable', ...afterProblems],
      },
      schema: {
        operationId: 'countPoints',
        tags: ['vectors'],
        summary: 'Count the points of a collection, exactly',
        querystring,
        response: { 200: answer },
      },
    },
    async (request, reply) => {
      const given = request.query
      const name = requireCollection(given.collection)
      const parsed = parseFilter(given.filter)
      const count = await withAudit(gateway, request, reply, { collection: name }, async () => {
        if (given.after !== undefined) await gateway.operations.after(given.after)
        return vectors.count(name, parsed)
      })
      return { collection: name, count }
    },
  )
}

function parseFilter(text: string | undefined): Filter | undefined {
  if (text === undefined) return undefined
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw validationFailed([{ path: '/filter', message: 'must be JSON' }])
  }
  const errors = checkFilter(value)
  if (errors) {
    throw validationFailed(errors.map(({ path, message }) => ({ path: `/filter${path}`, message })))
  }
  refuseLoneSurrogates(value as Filter)
  return value as Filter
}

/** Percent-encoding cannot carry one, a JSON escape can. */
function refuseLoneSurrogates(filter: Filter): void {
  filter.must.forEach(({ key, match }, n) => {
    const texts = typeof match.value === 'string' ? [key, match.value] : [key]
    if (texts.every((text) => text.isWellFormed())) return
    throw validationFailed([{ path: `/filter/must/${n}`, message: 'has half of a surrogate pair' }])
  })
}
