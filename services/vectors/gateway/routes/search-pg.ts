/** POST /v1/vectors/search-pg. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { answers, pieceBytesMax } from '#runtime/http/answers.ts'
import { createRowText, sendRows } from '#runtime/http/send-rows.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { pointsPerPiece, readQueryVector } from '../../accept/points.ts'
import type { PgFound, PgHit, PgQuery } from '../../read/search-pg/search.ts'
import type { Gateway } from '../gateway.ts'
import {
  absentOr,
  after,
  afterProblems,
  answeredExpiry,
  answeredVector,
  closedObject,
  expiryOf,
  limit,
  payload,
  rowsOf,
  vector,
} from '../schemas.ts'

const body = closedObject(
  {
    table: Type.String({
      minLength: 1,
      maxLength: 63,
      description:
        'A table of the schema vectors with a column of type vector(1536). embeddings holds the points of all collections, ' +
        'with the columns collection, id, title, status, tags, mind_path, updated_at, expires_at and payload to filter on.',
      examples: ['embeddings'],
    }),
    vector,
    limit: Type.Optional(limit),
    metric: Type.Optional(
      Type.Literal('cosine', { default: 'cosine', description: 'Scores are 1 − cosine distance.' }),
    ),
    filter_sql: absentOr(
      Type.String({
        description:
          'An SQL condition over the columns of the table, up to 4,096 bytes: =, <>, <, <=, >, >=, IN, BETWEEN, LIKE, ILIKE, ' +
          'IS NULL, IS NOT NULL, = ANY(array column), AND, OR, NOT, parentheses, and literals, also cast to text, int, float, ' +
          'bool or timestamptz. Everything else is 400 invalid_filter, with its name. Times without a zone are UTC.',
        examples: ["collection = 'knowledgebase' AND status = 'active' AND 'runbook' = ANY(tags)"],
      }),
    ),
    with_payload: Type.Optional(Type.Boolean({ default: true })),
    with_vector: Type.Optional(Type.Boolean({ default: false })),
    after,
  },
  { title: 'SearchTableRequest' },
)

const hit = Type.Object(
  {
    collection: Type.Optional(Type.String({ description: 'Absent when the table has no such column.' })),
    id: Type.String(),
    score: Type.Number({ description: 'Cosine similarity.' }),
    payload: Type.Optional(payload),
    vector: Type.Optional(answeredVector),
    expires_at: answeredExpiry,
  },
  { title: 'TableHit' },
)
const textOf = createRowText<object>(hit)

const answer = Type.Object(
  {
    results: Type.Array(hit),
    took_ms: Type.Integer({ description: 'Milliseconds.' }),
    records_scanned: Type.Integer({
      description:
        "Rows that were eligible for the search: a count up to 5 s old or, with filter_sql, the engine's estimate.",
    }),
  },
  {
    title: 'SearchPgAnswer',
    description: 'Hits by falling score, ties by id.',
    examples: [
      {
        results: [
          {
            collection: 'knowledgebase',
            id: 'STIDX001-5f2d1c',
            score: 0.93,
            payload: { title: 'Deploying the courier', status: 'active', tags: ['runbook'] },
          },
        ],
        took_ms: 6,
        records_scanned: 1_200,
      },
    ],
  },
)

export function registerSearchPg(scope: FastifyInstance, gateway: Gateway): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/search-pg',
    {
      config: {
        operation: 'search-pg',
        problems: ['invalid_filter', 'table_not_found', 'query_timeout', 'mirror_off', ...afterProblems],
      },
      schema: {
        operationId: 'searchTable',
        tags: ['vectors'],
        summary: 'Find the nearest rows of a table, filtered by an SQL condition',
        body,
        response: { 200: answer },
      },
    },
    async (request, reply) => {
      const begun = performance.now()
      const given = request.body
      const query = queryOf(given, callerOf(request).agentId)
      const searching = searchMirror(gateway, query, given.after)
      // What fails before anybody waits for it must not end the process.
      searching.catch(() => {})
      // The statement goes out first: it takes longest, and the audit record is written while the engine works.
      await nextTurn()
      const found = await withAudit(gateway, request, reply, { collection: given.table }, () => searching)
      const { hits, eligible } = found
      const figures = { took_ms: Math.round(performance.now() - begun), records_scanned: eligible }
      const whole = () => ({ results: hits.map(shown), ...figures }) as Static<typeof answer>
      return query.limit <= pointsPerPiece ? whole() : (sendHits(request, reply, hits, figures) as never)
    },
  )
}

/** Other tables than that of the points are no part of the mirror: they are as they are, whether it sleeps or not. */
async function searchMirror(gateway: Gateway, query: PgQuery, after: string | undefined): Promise<PgFound> {
  const { mirrorUse, operations, pgSearch } = gateway
  mirrorUse.demandOn()
  return pgSearch.search(query, async () => {
    const awake = query.table === 'embeddings' || after !== undefined ? mirrorUse.awake() : undefined
    await Promise.all([awake, after === undefined ? undefined : operations.after(after, 'relational')])
  })
}

/** The engine gives all hits at once. They become text a few at a time, which counts by its size and is sent in pieces. */
async function sendHits(request: FastifyRequest, reply: FastifyReply, hits: PgHit[], figures: object) {
  const [begin, end] = ['{"results":[', `],${JSON.stringify(figures).slice(1)}`]
  const texts: string[] = []
  let bytes = 0
  while (hits.length > 0) {
    const text = hits
      .splice(0, pointsPerPiece)
      .map((hit) => textOf(shown(hit)))
      .join(',')
    texts.push(text)
    bytes += text.length
    await nextTurn()
  }
  if (bytes <= pieceBytesMax) {
    return reply.type('application/json; charset=utf-8').send(begin + texts.join(',') + end)
  }
  const rows = { begin, end: () => end, textOf: (text: string) => text, pieces: taken(texts) }
  return answers.hold(request, reply, async () => sendRows(reply, rows), bytes)
}

/** Rows that were sent are dropped. */
async function* taken(texts: string[]): AsyncGenerator<string[]> {
  while (texts.length > 0) yield texts.splice(0, 1)
}

function shown({ expiresAt, ...hit }: PgHit) {
  return expiresAt === undefined ? hit : { ...hit, ...expiryOf({ expiresAt }) }
}

function queryOf(given: Static<typeof body>, caller: string): PgQuery {
  return {
    caller,
    table: given.table,
    vector: readQueryVector(given.vector),
    ...rowsOf(given),
    ...(given.filter_sql == null ? {} : { filter: given.filter_sql }),
  }
}
