/** The steps of the tour: each does one thing, checks its result and is timed. The first that fails ends the tour, and its results stay. */

import type { Client } from '#client/client.ts'
import { AppError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { tableOf } from '#operations/action.ts'
import type { Cli } from '../cli.ts'
import { type Addresses, clientOf, ensureAgent } from './example-agents.ts'
import { removeEarlier } from './tour-clean.ts'
import { readCorpus, type TourDocument } from './tour-documents.ts'
import {
  type Began,
  collection,
  type FoundHit,
  interrupted,
  openShown,
  questions,
  type Tour,
  type TourResult,
  timed,
  tourAgent,
  tourTag,
} from './tour-parts.ts'
import { auditedIds, waitForAudit, waitUntilRead } from './tour-readers.ts'
import { talk, writeRecords } from './tour-talk.ts'

const upsertPoints = 50
const hitsShown = 3

/** `more` goes on after the last step, with the tour's client. */
export async function runTour(
  cli: Cli,
  addresses: Addresses,
  { quiet, more }: { quiet: boolean; more?(tour: Tour): Promise<void> },
): Promise<TourResult> {
  const result: TourResult = {
    agent_id: tourAgent.agent_id,
    documents: 0,
    steps: [],
    searches: [],
    said: [],
    notes: [],
    goals: [],
    audit_notes: [],
    lag: [],
    console_url: addresses.consoleUrl ?? null,
  }
  const { output, say } = openShown(quiet)
  const began: Began = { cli, output, result, say }
  let client: Client | undefined
  try {
    const { file } = await timed(
      began,
      'provision an agent, or find it again',
      () => ensureAgent(cli, tourAgent),
      ({ isNew }) => `${tourAgent.agent_id}, ${isNew ? 'new' : 'of an earlier tour'}`,
    )
    client = clientOf(addresses, tourAgent.agent_id, file)
    const tour: Tour = { ...began, client, keyFile: file, addresses }
    await walk(tour)
    await more?.(tour)
  } catch (error) {
    throw cli.signal.aborted ? interrupted() : error
  } finally {
    output.end()
    await client?.close()
  }
  return result
}

async function walk(tour: Tour): Promise<void> {
  const { cli, client, addresses, result } = tour
  await timed(
    tour,
    'prove who it is',
    () => client.count(collection, { signal: cli.signal }),
    (points) => `${plural(points, 'point')} in ${collection} before`,
  )
  const before = await auditedIds(tour)
  const documents = await timed(
    tour,
    'cut the pages of the docs into sections',
    async () => readCorpus(),
    (sections) => plural(sections.length, 'section'),
  )
  result.documents = documents.length
  await timed(
    tour,
    'remove what an earlier tour left',
    () => removeEarlier(tour, documents),
    (removed) => removed,
  )
  await timed(
    tour,
    'embed and store them',
    () => store(tour, documents),
    (count) => `${count} points, applied`,
  )
  for (const question of questions) await search(tour, question)
  if (addresses.runUrl !== undefined) await talk(tour)
  if (addresses.hubUrl !== undefined) await writeRecords(tour)
  await waitForAudit(tour, before)
  await waitUntilRead(tour)
}

async function store(tour: Tour, documents: TourDocument[]): Promise<number> {
  const { cli, client, output } = tour
  for (let from = 0; from < documents.length; from += upsertPoints) {
    const some = documents.slice(from, from + upsertPoints)
    const { data } = await client.embeddings(some.map(({ title, text }) => `${title}\n\n${text}`))
    cli.signal.throwIfAborted()
    const points = some.map(({ id, title, path, text }, n) => ({
      id,
      vector: data[n]!.embedding,
      payload: {
        title,
        path,
        text,
        collection,
        status: 'active',
        tags: ['docs', tourTag],
        updated_at: new Date().toISOString(),
      },
    }))
    const { status } = await client.upsert(collection, points, { wait: true, signal: cli.signal })
    if (status !== 'applied') {
      throw new AppError('not_yet_applied', `An upsert is still ${status}: see \`flotilla lag\`.`)
    }
    output.progress({ label: 'storing', done: from + some.length, total: documents.length })
  }
  return documents.length
}

/** The page that answers must be among the hits; with the built-in embedder it is the first. */
async function search(tour: Tour, { query, page }: { query: string; page: string }): Promise<void> {
  const { cli, result, say } = tour
  const found = await timed(
    tour,
    'search',
    () => firstHits(tour, query),
    ({ took_ms }) => `"${query}" in ${took_ms} ms`,
  )
  cli.signal.throwIfAborted()
  if (!found.hits.some(({ path }) => path.startsWith(`${page}#`))) {
    throw new AppError('point_not_found', `${page} was not found for "${query}": see \`flotilla doctor\`.`)
  }
  result.searches.push({ query, ...found })
  say(
    tableOf(found.hits, {
      score: ({ score }) => score.toFixed(3),
      title: ({ title }) => title,
      path: ({ path }) => path,
    }),
  )
}

/** Searches the tour's own points. */
export async function firstHits(
  { cli, client }: Pick<Tour, 'cli' | 'client'>,
  query: string,
): Promise<{ took_ms: number; hits: FoundHit[] }> {
  const filter = { must: [{ key: 'tags', match: { value: tourTag } }] }
  const { results, took_ms } = await client.recall(collection, query, {
    limit: hitsShown,
    filter,
    signal: cli.signal,
  })
  const hits = results.map(({ id, score, payload }) => ({
    id,
    score,
    title: String(payload?.title ?? id),
    path: String(payload?.path ?? ''),
  }))
  return { took_ms, hits }
}
