/** GET /v1/vectors/get: one point by `id`, or many by repeated `ids`. POST takes the ids in its body. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Point, VectorStore } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import { grouped } from '#lib/plural.ts'
import { answers } from '#runtime/http/answers.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import { createRowText, sendRows } from '#runtime/http/send-rows.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { pointIdFault, pointsPerPiece } from '../../accept/points.ts'
import type { NamedCollection } from '../../collections/registry.ts'
import type { Gateway } from '../gateway.ts'
import {
  after,
  answeredExpiry,
  answeredPoint,
  answeredVector,
  closedObject,
  collection,
  payload,
  pointId,
  readProblems,
} from '../schemas.ts'

const idsMax = 1_000

const querystring = closedObject({
  collection,
  // Each is a text or, repeated, several: which are good is checked by the handler.
  id: Type.Optional(
    Type.Unsafe<string | string[]>(
      shownAs(Type.String({ description: 'One point id.', examples: ['STIDX001-5f2d1c'] })),
    ),
  ),
  ids: Type.Optional(
    Type.Unsafe<string | string[]>(
      shownAs(
        Type.Array(Type.String(), {
          minItems: 1,
          maxItems: idsMax,
          description: `Instead of id: 1 to ${idsMax} point ids, ids=a&ids=b. An address has room for 32 KiB: POST takes more.`,
        }),
      ),
    ),
  ),
  after,
})

const body = closedObject(
  {
    collection,
    // The handler checks them as it checks those of an address.
    ids: Type.Unsafe<string[]>({
      ...Type.Array(Type.String()),
      ...shownAs(Type.Array(pointId, { minItems: 1, maxItems: idsMax })),
    }),
    after,
  },
  { title: 'GetRequest' },
)

const point = { id: Type.String(), vector: answeredVector, payload, expires_at: answeredExpiry }

const storedPoint = Type.Object(point, { title: 'StoredPoint' })
const textOf = createRowText<object>(storedPoint)
const foundPoints = Type.Object(
  {
    points: Type.Array(storedPoint),
    missing: Type.Array(Type.String(), { description: 'Ids without a point.' }),
  },
  { title: 'FoundPoints' },
)

/** One shape for both answers: to choose between two, the serialiser would check each value first. */
const answer = Type.Object(
  {
    id: Type.Optional(point.id),
    vector: Type.Optional(point.vector),
    payload: Type.Optional(point.payload),
    expires_at: point.expires_at,
    points: Type.Optional(Type.Array(Type.Object(point))),
    missing: Type.Optional(Type.Array(Type.String())),
  },
  shownAs(
    Type.Union([storedPoint, foundPoints], {
      title: 'GetAnswer',
      description: 'The point itself for id; points and missing for ids.',
      examples: [{ points: [], missing: ['a', 'b'] }],
    }),
  ),
)

const config = { operation: 'get', problems: readProblems } as const

export function registerGet(scope: FastifyInstance, gateway: Gateway): void {
  const app = scope.withTypeProvider<TypeBoxTypeProvider>()
  app.get(
    '/get',
    {
      config: { ...config, problems: ['point_not_found', ...config.problems] },
      schema: {
        operationId: 'getPoints',
        tags: ['vectors'],
        summary: 'Fetch points by id, with their vectors',
        querystring,
        response: { 200: answer },
      },
    },
    async (request, reply) => {
      const given = request.query
      const collection = await gateway.collections.require(given.collection)
      const wanted = wantedIds(given)
      const isOne = given.id !== undefined
      const asked = { gateway, request, reply, collection, wanted, after: given.after, isOne }
      if (!isOne) return many(asked) as never
      const [found] = await read(asked)
      return answeredPoint(found!) as Static<typeof answer>
    },
  )
  app.post(
    '/get',
    {
      config,
      schema: {
        operationId: 'getManyPoints',
        tags: ['vectors'],
        summary: 'Fetch many points by id, with their vectors',
        body,
        response: { 200: foundPoints },
      },
    },
    async (request, reply) => {
      const { ids, after } = request.body
      const collection = await gateway.collections.require(request.body.collection)
      const wanted = checkedIds(ids, 'ids')
      return many({ gateway, request, reply, collection, wanted, after }) as never
    },
  )
}

interface Asked {
  gateway: Gateway
  request: FastifyRequest
  reply: FastifyReply
  collection: NamedCollection
  wanted: string[]
  after: string | undefined
  /** Then it must be there. */
  isOne?: boolean
}

/** The points of the first piece, noted in the audit. Throws AppError `point_not_found` for the one that is not there. */
function read({ gateway, request, reply, collection, wanted, after, isOne }: Asked) {
  const { name, stored } = collection
  return withAudit(gateway, request, reply, { collection: name }, async () => {
    if (after !== undefined) await gateway.operations.after(after)
    const points = await gateway.context.engines.vectors.get(stored, wanted.slice(0, pointsPerPiece))
    if (isOne && points.length === 0) {
      throw new AppError('point_not_found', `${name} has no point of this id.`)
    }
    return points
  })
}

/** Few at once; more are sent piece by piece. */
async function many(asked: Asked): Promise<object> {
  const { gateway, request, reply, collection, wanted } = asked
  if (wanted.length <= pointsPerPiece) {
    const points = await read(asked)
    return { points: points.map(answeredPoint), missing: missingOf(wanted, points) }
  }
  return answers.hold(request, reply, async () => {
    const pieces = manyPieces(gateway.context.engines.vectors, collection.stored, wanted, await read(asked))
    return sendRows(reply, pieces) as never
  })
}

function wantedIds(given: Static<typeof querystring>): string[] {
  if ((given.id === undefined) === (given.ids === undefined)) {
    throw validationFailed([{ path: '/id', message: 'must be given once, or ids instead of it' }])
  }
  if (Array.isArray(given.id)) throw validationFailed([{ path: '/id', message: 'must be given once' }])
  const name = given.id === undefined ? 'ids' : 'id'
  return checkedIds([given.id ?? given.ids ?? []].flat(), name)
}

/** Each id once. Throws AppError `validation_failed`. */
function checkedIds(ids: string[], name: 'id' | 'ids'): string[] {
  if (ids.length === 0) throw validationFailed([{ path: '/ids', message: 'at least 1 id' }])
  if (ids.length > idsMax)
    throw validationFailed([
      { path: '/ids', message: `at most ${grouped(idsMax)} ids (${grouped(ids.length)} were sent)` },
    ])
  const errors = ids.flatMap((id, n) => {
    const fault = pointIdFault(id)
    return fault ? [{ path: name === 'id' ? '/id' : `/ids/${n}`, message: fault }] : []
  })
  if (errors.length > 0) throw validationFailed(errors)
  return [...new Set(ids)]
}

function missingOf(wanted: string[], found: Point[]): string[] {
  const there = new Set(found.map((point) => point.id))
  return wanted.filter((id) => !there.has(id))
}

/** `first`: the points of the first piece. */
function manyPieces(vectors: Pick<VectorStore, 'get'>, stored: string, wanted: string[], first: Point[]) {
  const missing: string[] = []
  async function* pieces(): AsyncGenerator<Point[]> {
    for (let from = 0; from < wanted.length; from += pointsPerPiece) {
      const some = wanted.slice(from, from + pointsPerPiece)
      const found = from === 0 ? first : await vectors.get(stored, some)
      missing.push(...missingOf(some, found))
      yield found
    }
  }
  return {
    begin: '{"points":[',
    end: () => `],"missing":${JSON.stringify(missing)}}`,
    textOf: (one: Point) => textOf(answeredPoint(one)),
    pieces: pieces(),
  }
}
