/** POST /v1/vectors/search. The hot path: parse, call the engine while the audit record is written, answer. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Hit, SearchQuery, SearchResult, VectorStore } from '#engines/vectors/port.ts'
import { answers, heldBytesPerPiece, pieceBytesMax } from '#runtime/http/answers.ts'
import { createRowText, sendRows } from '#runtime/http/send-rows.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { filterShape, readFilter } from '../../accept/filters.ts'
import { hitBytesMax, pointsPerPiece, readQuestion } from '../../accept/points.ts'
import { embedQuestion } from '../../accept/texts.ts'
import { embedderWarnings } from '../../read/embedders.ts'
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
  payload,
  readProblems,
  rowsOf,
  text,
  vector,
} from '../schemas.ts'

export const searchRequest = closedObject(
  {
    collection,
    vector: Type.Optional(vector),
    text: Type.Optional(text),
    limit: Type.Optional(limit),
    score_threshold: absentOr(Type.Number({ description: 'Hits below this score are left out.' })),
    filter: Type.Optional(filterShape),
    with_payload: Type.Optional(Type.Boolean({ default: true })),
    with_vector: Type.Optional(Type.Boolean({ default: false })),
    after,
  },
  { title: 'SearchRequest' },
)

const hit = Type.Object(
  {
    id: Type.String(),
    score: Type.Number({ description: 'Cosine similarity.' }),
    payload: Type.Optional(payload),
    vector: Type.Optional(answeredVector),
    expires_at: answeredExpiry,
  },
  { title: 'Hit' },
)
const textOf = createRowText<object>(hit)

export const hitText = (one: Hit) => textOf(answeredPoint(one))

export const searchAnswer = Type.Object(
  {
    results: Type.Array(hit),
    took_ms: Type.Integer({ description: 'Milliseconds.' }),
    records_scanned: Type.Integer({ description: 'Points that were eligible for the search.' }),
    warnings: Type.Optional(
      Type.Array(Type.String(), {
        description:
          'Of a search by text: hits whose vectors another embedder made, and what to do about it.',
      }),
    ),
  },
  {
    title: 'SearchAnswer',
    description: 'Hits by falling score, ties by id.',
    examples: [
      {
        results: [{ id: 'STIDX001-5f2d1c', score: 0.93, payload: { title: 'Deploying the courier' } }],
        took_ms: 4,
        records_scanned: 20_000,
      },
    ],
  },
)

export function registerSearch(scope: FastifyInstance, gateway: Gateway): void {
  const { vectors, embedder } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/search',
    {
      onResponse(_request, reply, done) {
        if (reply.statusCode === 200) gateway.searchLatencies.note(reply.elapsedTime)
        done()
      },
      config: {
        operation: 'search',
        problems: [...readProblems, 'embedder_unavailable'],
      },
      schema: {
        operationId: 'searchPoints',
        tags: ['vectors'],
        summary: 'Find the nearest points of a collection',
        description: 'The question is a vector, or a text that the platform embeds.',
        body: searchRequest,
        response: { 200: searchAnswer },
      },
    },
    async (request, reply) => {
      const begun = performance.now()
      const given = request.body
      const { name, stored } = await gateway.collections.require(given.collection)
      const question = readQuestion(given)
      const query = queryOf(given)
      const search = async () => {
        const vector = typeof question === 'string' ? await embedQuestion(embedder, question) : question
        if (given.after !== undefined) await gateway.operations.after(given.after)
        return vectors.search(stored, { ...query, vector })
      }
      const work = async () => {
        const found = await withAudit(gateway, request, reply, { collection: name }, search)
        const warnings =
          typeof question === 'string' ? embedderWarnings(name, found.hits, embedder.space) : []
        const figures = figuresOf(found, warnings, begun)
        if (found.filled < found.hits.length) {
          return sendRows(reply, {
            begin: '{"results":[',
            end: () => `],${JSON.stringify(figures).slice(1)}`,
            textOf: hitText,
            pieces: filledHits(vectors, stored, query, found),
          }) as never
        }
        return wholeAnswer(found, figures)
      }
      const isSmall = query.limit * hitBytesMax(query) <= heldBytesPerPiece
      return isSmall ? work() : answers.hold(request, reply, work)
    },
  )
}

/** All of an answer but its hits. `begun` is when the request came (performance.now). */
export function figuresOf({ eligible }: SearchResult, warnings: string[], begun: number) {
  return {
    took_ms: Math.round(performance.now() - begun),
    records_scanned: eligible,
    ...(warnings.length > 0 && { warnings }),
  }
}

/** For a result whose hits are all filled. */
export function wholeAnswer({ hits }: SearchResult, figures: ReturnType<typeof figuresOf>) {
  return { results: hits.map(answeredPoint), ...figures } as Static<typeof searchAnswer>
}

export type Question = Omit<SearchQuery, 'vector'>

export function queryOf(given: Static<typeof searchRequest>): Question {
  const filter = readFilter(given.filter)
  return {
    ...rowsOf(given),
    bytesMax: pieceBytesMax,
    ...(given.score_threshold == null ? {} : { scoreThreshold: given.score_threshold }),
    ...(filter && { filter }),
  }
}

/** Hits that came without payload and vector get them a few at a time. One whose point was deleted meanwhile is left out. */
export async function* filledHits(
  vectors: Pick<VectorStore, 'get'>,
  collection: string,
  { withPayload, withVector }: Question,
  { hits, filled }: SearchResult,
): AsyncGenerator<Hit[]> {
  yield hits.slice(0, filled)
  for (let from = filled; from < hits.length; from += pointsPerPiece) {
    const some = hits.slice(from, from + pointsPerPiece)
    const points = await vectors.get(
      collection,
      some.map(({ id }) => id),
    )
    const found = new Map(points.map((point) => [point.id, point]))
    yield some.flatMap(({ id, score }) => {
      const point = found.get(id)
      if (!point) return []
      const { payload, vector, expiresAt } = point
      const expiry = expiresAt === undefined ? {} : { expiresAt }
      return [
        { id, score, ...(withPayload ? { payload } : {}), ...(withVector ? { vector } : {}), ...expiry },
      ]
    })
  }
}
