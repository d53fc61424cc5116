/** POST /v1/vectors/scroll. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import type { ScrollQuery, ScrollResult } from '#engines/vectors/port.ts'
import { answers, pageBytesMax, pieceBytesMax } from '#runtime/http/answers.ts'
import { createRowText, sendRows } from '#runtime/http/send-rows.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { filterShape, readFilter } from '../../accept/filters.ts'
import type { Gateway } from '../gateway.ts'
import {
  absentOr,
  after,
  answeredExpiry,
  answeredPoint,
  answeredVector,
  closedObject,
  collection,
  limit,
  orderBy,
  payload,
  pointId,
  readProblems,
  rowsOf,
} from '../schemas.ts'

const body = closedObject(
  {
    collection,
    limit: Type.Optional(limit),
    offset: absentOr(pointId),
    filter: Type.Optional(filterShape),
    order_by: absentOr(orderBy),
    with_payload: Type.Optional(Type.Boolean({ default: true })),
    with_vector: Type.Optional(Type.Boolean({ default: false })),
    after,
  },
  { title: 'ScrollRequest' },
)

const point = Type.Object(
  {
    id: Type.String(),
    payload: Type.Optional(payload),
    vector: Type.Optional(answeredVector),
    expires_at: answeredExpiry,
  },
  { title: 'ScrolledPoint' },
)
const textOf = createRowText<object>(point)

const answer = Type.Object(
  {
    points: Type.Array(point),
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

/** Bytes around the points of a page, with its offset of up to 512 characters. */
const frameBytes = 8 * 1024

export function registerScroll(scope: FastifyInstance, gateway: Gateway): void {
  const { vectors } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/scroll',
    {
      config: {
        operation: 'scroll',
        problems: readProblems,
      },
      schema: {
        operationId: 'scrollPoints',
        tags: ['vectors'],
        summary: 'Read a collection page by page',
        description:
          'A page ends at `limit` points or at 4 MiB: only `next_offset` says whether there are more. Every point comes exactly ' +
          'once when nothing changes meanwhile; in the order of `updated_at` one that is written meanwhile may come again, or not at all.',
        body,
        response: { 200: answer },
      },
    },
    async (request, reply) => {
      const given = request.body
      const { name, stored } = await gateway.collections.require(given.collection)
      const query = queryOf(given)
      const read: ReadPoints = (rest) =>
        vectors.scroll(stored, { ...query, ...rest, bytesMax: pieceBytesMax })
      return answers.hold(request, reply, async () => {
        const first = await withAudit(gateway, request, reply, { collection: name }, async () => {
          if (given.after !== undefined) await gateway.operations.after(given.after)
          return read({})
        })
        const isWhole = first.next === null || first.points.length === query.limit
        if (!isWhole) return sendRows(reply, pageOf(first, read, query.limit)) as never
        return {
          points: first.points.map(answeredPoint),
          next_offset: first.next,
        } as Static<typeof answer>
      })
    },
  )
}

type ReadPoints = (rest: { limit?: number; offset?: string }) => Promise<ScrollResult>

/** The page as texts of its points; its last piece is cut where the page ends. */
function pageOf(first: ScrollResult, read: ReadPoints, limit: number) {
  let next: string | null = null
  async function* pieces(): AsyncGenerator<string[]> {
    let bytes = 0
    let left = limit
    for (let page = first; ; page = await read({ limit: left, offset: next })) {
      const texts: string[] = []
      for (const scrolled of page.points) {
        const text = textOf(answeredPoint(scrolled))
        const size = Buffer.byteLength(text) + 1
        if (bytes > 0 && bytes + size > pageBytesMax - frameBytes) {
          next = scrolled.place ?? scrolled.id
          yield texts
          return
        }
        bytes += size
        texts.push(text)
      }
      yield texts
      next = page.next
      left -= page.points.length
      if (next === null || left === 0) return
    }
  }
  return {
    begin: '{"points":[',
    end: () => `],"next_offset":${JSON.stringify(next)}}`,
    textOf: (text: string) => text,
    pieces: pieces(),
  }
}

function queryOf(given: Static<typeof body>): ScrollQuery {
  const filter = readFilter(given.filter)
  return {
    ...rowsOf(given),
    ...(given.offset == null ? {} : { offset: given.offset }),
    ...(filter && { filter }),
    ...(given.order_by == null ? {} : { updatedAt: given.order_by.direction ?? 'asc' }),
  }
}
