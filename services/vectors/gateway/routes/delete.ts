/** DELETE /v1/vectors/delete: of points by their ids, or of those that match a filter at that moment. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { isReserved, reservedId } from '#engines/vectors/collections.ts'
import type { Filter, VectorStore } from '#engines/vectors/port.ts'
import { ruleAndValue } from '#lib/schema-faults.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import { filterShape, readFilter } from '../../accept/filters.ts'
import type { NamedCollection } from '../../collections/registry.ts'
import { newOperationNumber } from '../../read/operations/operations.ts'
import type { Gateway } from '../gateway.ts'
import {
  acceptedOperation,
  after,
  closedObject,
  collection,
  pointId,
  readProblems,
  waitQuery,
  writeProblems,
} from '../schemas.ts'
import { type Acceptance, accept, publishPoints } from './writes.ts'

const idsMax = 1_000
/** Points that one call deletes by a filter. */
const deletedMax = 10_000
const pointsPerPage = 1_000
/** Points of the platform itself that a call passes over before it answers that there are more. */
const passedOverMax = 100_000

const deleteBody = closedObject(
  {
    collection,
    ids: Type.Optional(Type.Array(pointId, { minItems: 1, maxItems: idsMax })),
    filter: Type.Optional(filterShape),
    after,
  },
  { title: 'DeleteRequest', description: 'With either ids or a filter that has conditions.' },
)

const answer = closedObject(
  {
    ...acceptedOperation.properties,
    deleted: Type.Optional(Type.Integer({ description: 'With a filter: how many points matched.' })),
    more: Type.Optional(
      Type.Boolean({
        description: `With a filter: whether others match, beyond ${deletedMax} points. Call again.`,
      }),
    ),
  },
  { title: 'AcceptedDeletion', description: 'In the log; with status applied also in the vector engine.' },
)

export function registerDelete(scope: FastifyInstance, gateway: Gateway): void {
  const { publisher } = gateway.context
  const { vectors } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().delete(
    '/delete',
    {
      onRequest: leastAccess('member'),
      config: { operation: 'delete', problems: [...new Set([...writeProblems, ...readProblems])] },
      schema: {
        operationId: 'deletePoints',
        tags: ['vectors'],
        summary: 'Delete points by id or by filter',
        description:
          'Deleting a point that is not there is no fault. With a filter, the points that match at that moment are ' +
          `deleted, at most ${deletedMax} in a call; \`more\` says whether to call again. One that is written later stays, also ` +
          'when it matches. Points of the platform itself in fleet_notes are left out.',
        body: deleteBody,
        querystring: waitQuery,
        response: { 200: answer, 202: answer },
      },
    },
    async (request, reply) => {
      const { ids: given, filter: asked, after } = request.body
      const filter = readFilter(asked)
      if ((given === undefined) === (filter === undefined)) {
        throw validationFailed([{ path: '', message: 'exactly one of ids and filter' }])
      }
      if (filter && !hasConditions(filter)) {
        const message = ruleAndValue(
          'a filter with conditions: delete the collection to delete all points',
          {},
        )
        throw validationFailed([{ path: '/filter', message }])
      }
      const collection = await gateway.collections.require(request.body.collection)
      const parts = { gateway, request, reply, collection }
      const deletions = (ids: string[], headers: Record<string, string>) =>
        publishPoints(publisher, { collection, ids, headers }, null)
      if (given) {
        const ids = [...new Set(given)]
        if (ids.some((id) => isReserved(collection.name, id))) throw reservedId()
        const publish = (headers: Record<string, string>) => deletions(ids, headers)
        const whole = { ...parts, points: ids.length, sent: given.length, publish }
        return accept(whole, (publishAs) => publishAs(newOperationNumber()))
      }
      let found: Matching = { ids: [], more: false }
      const publish: Acceptance['publish'] = async (headers, reserve) => {
        if (after !== undefined) await gateway.operations.after(after)
        found = await findMatching(vectors, collection, filter!)
        reserve(found.ids.length)
        return deletions(found.ids, headers)
      }
      const accepted = await accept({ ...parts, publish }, (publishAs) => publishAs(newOperationNumber()))
      return { ...accepted, deleted: found.ids.length, more: found.more } as Static<typeof answer>
    },
  )
}

/** A filter within that has none matches every point, too. */
function hasConditions({ must = [], should = [], must_not = [] }: Filter): boolean {
  return [...must, ...should, ...must_not].some(
    (one) => 'key' in one || 'is_empty' in one || hasConditions(one),
  )
}

interface Matching {
  ids: string[]
  more: boolean
}

async function findMatching(
  vectors: Pick<VectorStore, 'scroll'>,
  { name, stored }: NamedCollection,
  filter: Filter,
): Promise<Matching> {
  const ids: string[] = []
  let passedOver = 0
  const page = { limit: pointsPerPage, filter, withPayload: false, withVector: false }
  for (let offset: string | null | undefined; offset !== null && passedOver < passedOverMax; ) {
    const { points, next } = await vectors.scroll(stored, {
      ...page,
      ...(offset === undefined ? {} : { offset }),
    })
    const own = points.filter(({ id }) => !isReserved(name, id))
    passedOver += points.length - own.length
    for (const { id } of own) {
      if (ids.length === deletedMax) return { ids, more: true }
      ids.push(id)
    }
    offset = next
    if (offset === null) return { ids, more: false }
  }
  return { ids, more: true }
}
