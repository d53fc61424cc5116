/** The steps of the tour: each does one thing, checks its result and is timed. The first that fails ends the tour. */

import { randomBytes } from 'node:crypto'
import { createClient } from '#client/client.ts'
import { openEngines } from '#engines/open.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { deleteAgentOperation, provisionAgentOperation } from '#operations/agents.ts'
import { lagOperation } from '#operations/lag.ts'
import { schemasDirectory } from '#runtime/codec.ts'
import type { Output } from '#runtime/control.ts'
import { createLog } from '#runtime/log.ts'
import type { Cli } from '../cli.ts'
import { execute } from '../execute.ts'
import { createOutput } from '../output.ts'
import { findDocuments, type TourDocument } from './tour-documents.ts'

const documentsMax = 300
const upsertPoints = 50
const collection = 'knowledgebase'
const queries = [
  'how do I validate JSON against a schema',
  'connect to a Postgres database',
  'a fast HTTP server with routes',
]
const auditWaitMs = 30_000
/** Handshake, verify and one search at least. */
const auditNotesMin = 3

export interface TourResult {
  agent_id: string
  documents: number
  steps: { step: string; took_ms: number; found: string }[]
  searches: { query: string; took_ms: number; hits: { id: string; score: number; title: string }[] }[]
  audit_notes: { title: string; status_code: number | null; took_ms: number | null }[]
  lag: { group: string; lag: number }[]
}

type Client = ReturnType<typeof createClient>
type Embed = (texts: string[]) => Promise<Float32Array[]>

interface Tour {
  cli: Cli
  client: Client
  embed: Embed
  output: Output
  result: TourResult
}

export async function runTour(
  cli: Cli,
  options: { vectorUrl: string; folder: string; quiet: boolean },
): Promise<TourResult> {
  const agentId = `tour-${randomBytes(4).toString('hex')}`
  const result: TourResult = {
    agent_id: agentId,
    documents: 0,
    steps: [],
    searches: [],
    audit_notes: [],
    lag: [],
  }
  const output = options.quiet ? { item() {}, progress() {}, end() {} } : createOutput(() => {})
  const session = { env: cli.env, output, signal: cli.signal }
  const agent = await timed(
    result,
    'provision an agent',
    () => execute(provisionAgentOperation, { agentId, role: 'tourist', volume: options.folder }, session),
    ({ agent_id, public_key_fingerprint }) => `${agent_id}, ${public_key_fingerprint}`,
  )
  const client = createClient({
    vectorUrl: options.vectorUrl,
    agentId,
    privateKeyFile: agent.private_key_file,
  })
  const embedder = await openLocalEmbedder(cli)
  const remove = () => execute(deleteAgentOperation, { agentId }, session)
  try {
    await walk({ cli, client, embed: embedder.embed, output, result })
    result.lag = (await execute(lagOperation, {}, session)).groups.map(({ group, lag }) => ({ group, lag }))
    await timed(result, 'delete the agent', remove, () => 'its keys no longer work')
  } catch (error) {
    // The error that ended the tour is the one to report.
    await remove().catch(() => {})
    throw error
  } finally {
    output.end()
    await client.close()
    await embedder.close()
  }
  return result
}

async function walk(tour: Tour): Promise<void> {
  const { client, result } = tour
  await timed(
    result,
    'prove its identity',
    () => client.count(collection),
    (counted) => `${counted} points in ${collection} before`,
  )
  const documents = await timed(
    result,
    'find Markdown documents',
    async () => findDocuments(documentsMax),
    (found) => `${found.length}`,
  )
  if (documents.length === 0)
    throw new AppError('not_found', 'There are no Markdown documents below node_modules.')
  result.documents = documents.length
  const vectors = await timed(
    result,
    'embed them',
    () => tour.embed(documents.map((one) => one.text)),
    (made) => `${made.length} vectors`,
  )
  await timed(
    result,
    'store them',
    () => store(tour, documents, vectors),
    (count) => `${count} points, applied`,
  )
  await timed(
    result,
    'find one by its own text',
    () => findItself(tour, documents[0]!, vectors[0]!),
    (score) => `score ${score.toFixed(3)}`,
  )
  for (const query of queries) await search(tour, query)
  await timed(
    result,
    'wait for the audit notes',
    () => auditNotes(tour),
    (notes) => `${notes} notes`,
  )
}

async function timed<T>(
  result: TourResult,
  step: string,
  work: () => Promise<T>,
  show: (value: T) => string,
): Promise<T> {
  const startedAt = performance.now()
  const value = await work()
  result.steps.push({ step, took_ms: Math.round(performance.now() - startedAt), found: show(value) })
  return value
}

async function store(
  { client, output }: Tour,
  documents: TourDocument[],
  vectors: Float32Array[],
): Promise<number> {
  for (let from = 0; from < documents.length; from += upsertPoints) {
    const points = documents.slice(from, from + upsertPoints).map(({ id, title, path }, n) => ({
      id,
      vector: vectors[from + n]!,
      payload: {
        title,
        mind_path: path,
        collection,
        status: 'active',
        tags: ['tour'],
        updated_at: new Date().toISOString(),
      },
    }))
    const stored = await client.upsert(collection, points, { wait: true })
    if (stored.status !== 'applied')
      throw new AppError('not_yet_applied', `An upsert is still ${stored.status}.`)
    output.progress({
      label: 'storing',
      done: Math.min(from + upsertPoints, documents.length),
      total: documents.length,
    })
  }
  return documents.length
}

async function findItself({ client }: Tour, document: TourDocument, vector: Float32Array): Promise<number> {
  const { results } = await client.search({ collection, vector, limit: 5 })
  const itself = results.find((hit) => hit.id === document.id)
  if (!itself || itself.score < 0.99)
    throw new AppError('point_not_found', `${document.path} does not find itself.`)
  return itself.score
}

async function search({ client, embed, result }: Tour, query: string): Promise<void> {
  const [vector] = await embed([query])
  const found = await client.search({ collection, vector: vector!, limit: 3 })
  if (found.results.length === 0) throw new AppError('point_not_found', `Nothing was found for "${query}".`)
  const hits = found.results.map(({ id, score, payload }) => ({
    id,
    score,
    title: String(payload?.title ?? id),
  }))
  result.searches.push({ query, took_ms: found.took_ms, hits })
}

/** Notes are written some moments after the operations that they are about. */
async function auditNotes({ client, result }: Tour): Promise<number> {
  const filter = { must: [{ key: 'tags', match: { value: result.agent_id } }] }
  const until = Date.now() + auditWaitMs
  for (;;) {
    const { points } = await client.scroll({ collection: 'fleet_notes', limit: 50, filter })
    const ended = points.filter((point) => point.payload?.outcome !== 'unknown')
    if (ended.length >= auditNotesMin) {
      result.audit_notes = ended.slice(0, 10).map(({ payload }) => ({
        title: String(payload?.title),
        status_code: typeof payload?.status_code === 'number' ? payload.status_code : null,
        took_ms: typeof payload?.took_ms === 'number' ? payload.took_ms : null,
      }))
      return points.length
    }
    if (Date.now() > until)
      throw new AppError('not_yet_applied', 'The audit notes did not come: see `flotilla lag`.')
    await sleep(500)
  }
}

async function openLocalEmbedder(cli: Cli): Promise<{ embed: Embed; close(): Promise<void> }> {
  const opened = await openEngines({
    settings: {},
    needs: ['localEmbedder'],
    directory: cli.env.FLOTILLA_HOME ?? '',
    schemasDirectory,
    clientId: 'flotilla-tour',
    log: createLog({ level: 'warn' }),
  })
  return { embed: (texts) => opened.engines.localEmbedder!.embed(texts), close: () => opened.close() }
}
