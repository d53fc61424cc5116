/** POST /v1/vectors/search/batch: several searches as one operation. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import type { SearchResult, VectorStore } from '#engines/vectors/port.ts'
import { AppError, type FieldError } from '#lib/errors.ts'
import { answers, heldBytesPerPiece, pieceBytesMax } from '#runtime/http/answers.ts'
import { sendRows } from '#runtime/http/send-rows.ts'
import { fieldErrorsMax, validationFailed } from '#runtime/http/validation.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { hitBytesMax, readQuestion } from '../../accept/points.ts'
import { embedQuestions } from '../../accept/texts.ts'
import type { NamedCollection } from '../../collections/registry.ts'
import { embedderWarnings } from '../../read/embedders.ts'
import type { Gateway } from '../gateway.ts'
import { closedObject, readProblems } from '../schemas.ts'
import {
  figuresOf,
  filledHits,
  hitText,
  type Question,
  queryOf,
  searchAnswer,
  searchRequest,
  wholeAnswer,
} from './search.ts'

const searchesMax = 20
/** Searches of one batch that the engine has at a time. */
const searchesAtOnce = 4
/** Hits of a batch that are written at once, as many as one search may give. */
const hitsAtOnceMax = 1_000

const body = closedObject(
  { searches: Type.Array(searchRequest, { minItems: 1, maxItems: searchesMax }) },
  { title: 'SearchBatchRequest' },
)

const answer = Type.Object(
  { results: Type.Array(searchAnswer, { description: 'The answers, in the order of the searches.' }) },
  { title: 'SearchBatchAnswer' },
)

export function registerSearchBatch(scope: FastifyInstance, gateway: Gateway): void {
  const { vectors } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/search/batch',
    {
      config: {
        operation: 'search',
        problems: [...readProblems, 'embedder_unavailable'],
      },
      schema: {
        operationId: 'searchPointsBatch',
        tags: ['vectors'],
        summary: `Up to ${searchesMax} searches in one request`,
        description:
          'Each search is answered as it would be alone. One faulty search refuses the whole. The batch counts as one ' +
          'operation, and all of its texts are embedded in one call.',
        body,
        response: { 200: answer },
      },
    },
    async (request, reply) => {
      const begun = performance.now()
      const searches = await readSearches(gateway, request.body.searches)
      const work = async () => {
        const collection = [...new Set(searches.map(({ name }) => name))].join(',')
        const found = await withAudit(gateway, request, reply, { collection }, () =>
          run(gateway, searches, begun),
        )
        if (areFewFilled(found)) {
          return { results: found.map(({ result, figures }) => wholeAnswer(result, figures)) }
        }
        return sendRows(reply, {
          begin: '{"results":[',
          end: () => ']}',
          textOf: (text: string) => text,
          pieces: answerTexts(vectors, found),
        }) as never
      }
      const bytes = searches.reduce((sum, { query }) => sum + query.limit * hitBytesMax(query), 0)
      return bytes <= heldBytesPerPiece ? work() : answers.hold(request, reply, work, heldBytesOf(searches))
    },
  )
}

interface Search {
  /** The name of its collection. */
  name: string
  stored: string
  question: Float32Array | string
  query: Question
  after: string | undefined
}

interface Found extends Search {
  result: SearchResult
  figures: ReturnType<typeof figuresOf>
}

/** Throws AppError `collection_not_found`, or `validation_failed` with the faults of all searches. */
async function readSearches(
  { collections }: Pick<Gateway, 'collections'>,
  given: Static<typeof searchRequest>[],
): Promise<Search[]> {
  const named: NamedCollection[] = []
  for (const one of given) named.push(await collections.require(one.collection))
  const errors: FieldError[] = []
  // Payloads and vectors of the whole batch take as much room as those of one search.
  const bytesMax = pieceBytesMax / given.length
  const searches = given.flatMap((one, n) => {
    const { name, stored } = named[n]!
    const read = <T>(reading: (given: Static<typeof searchRequest>) => T) =>
      faultsInto(errors, `/searches/${n}`, () => [reading(one)])
    const [question] = read(readQuestion)
    const [query] = read(queryOf)
    return question && query
      ? [{ name, stored, question, query: { ...query, bytesMax }, after: one.after }]
      : []
  })
  if (errors.length > 0) throw validationFailed(errors.slice(0, fieldErrorsMax))
  return searches
}

/** Nothing where the reading finds faults, which are kept below `at`. */
function faultsInto<T>(errors: FieldError[], at: string, reading: () => T[]): T[] {
  try {
    return reading()
  } catch (error) {
    if (!(error instanceof AppError) || !error.errors) throw error
    errors.push(...error.errors.map(({ path, message }) => ({ path: at + path, message })))
    return []
  }
}

/** All results, in the order of the searches. Waits for the operations that they name before the first one. */
async function run(gateway: Gateway, searches: Search[], begun: number): Promise<Found[]> {
  const { vectors, embedder } = gateway.context.engines
  const questions = await vectorsOf(gateway, searches)
  const awaited = new Set(searches.flatMap(({ after }) => after ?? []))
  await Promise.all([...awaited].map((id) => gateway.operations.after(id)))
  return mapFew(searches, async (search, n) => {
    const { name, stored, query, question } = search
    const result = await vectors.search(stored, { ...query, vector: questions[n]! })
    const warnings = typeof question === 'string' ? embedderWarnings(name, result.hits, embedder.space) : []
    return { ...search, result, figures: figuresOf(result, warnings, begun) }
  })
}

async function vectorsOf({ context }: Gateway, searches: Search[]): Promise<Float32Array[]> {
  const places = searches.flatMap(({ question }, n) => (typeof question === 'string' ? [n] : []))
  const texts = places.map((n) => searches[n]!.question as string)
  const path = places.length === 1 ? `/searches/${places[0]}/text` : '/searches'
  const made = (await embedQuestions(context.engines.embedder, texts, path)).values()
  return searches.map(({ question }) => (typeof question === 'string' ? made.next().value! : question))
}

/** Maps a few at a time, in order; none begins after a failure. */
export async function mapFew<T, R>(given: T[], map: (one: T, n: number) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const waiting = given.entries()
  let hasFailed = false
  async function work(): Promise<void> {
    for (const [n, one] of waiting) {
      if (hasFailed) return
      results[n] = await map(one, n)
    }
  }
  const lanes = Array.from({ length: searchesAtOnce }, work)
  try {
    await Promise.all(lanes)
  } catch (error) {
    hasFailed = true
    throw error
  }
  return results
}

function areFewFilled(found: Found[]): boolean {
  const hits = found.reduce((sum, { result }) => sum + result.hits.length, 0)
  return hits <= hitsAtOnceMax && found.every(({ result }) => result.filled === result.hits.length)
}

/** The most that a batch holds until it is written: a filled hit of each search, ids of all, and the filled hits of a piece. */
function heldBytesOf(searches: Search[]): number {
  const bytesOf = ({ query }: Search) => hitBytesMax(query) + query.limit * hitBytesMax({})
  return searches.reduce((sum, search) => sum + bytesOf(search), pieceBytesMax)
}

/**
 * The answers as texts that commas join: an answer goes on where a text ends with a hit. Its beginning comes with the first hit
 * and its end with the last one, so one text is kept back until the next is known.
 */
export async function* answerTexts(
  vectors: Pick<VectorStore, 'get'>,
  found: Iterable<Found>,
): AsyncGenerator<string[]> {
  for (const { stored, query, result, figures } of found) {
    let last: string | undefined
    for await (const hits of filledHits(vectors, stored, query, result)) {
      const texts: string[] = []
      for (const hit of hits) {
        if (last !== undefined) texts.push(last)
        last = (last === undefined ? begin : '') + hitText(hit)
      }
      yield texts
    }
    yield [`${last ?? begin}],${JSON.stringify(figures).slice(1)}`]
  }
}
const begin = '{"results":['
