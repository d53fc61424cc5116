/**
 * The steps of the tour: each does one thing, checks its result and is timed. The first that fails ends the tour. What it
 * made is removed however it ends.
 */

import { randomBytes } from 'node:crypto'
import { createClient } from '#client/client.ts'
import { openEngines } from '#engines/open.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { deleteAgentAction } from '#operations/agents/actions.ts'
import { provisionAgentAction } from '#operations/agents/keys.ts'
import { lagOperation } from '#operations/lag.ts'
import { createLog } from '#runtime/observe/log.ts'
import { schemasDirectory } from '#runtime/publish/codec.ts'
import type { Cli } from '../cli.ts'
import { execute } from '../execute.ts'
import { createOutput } from '../output.ts'
import { findDocuments, type TourDocument } from './tour-documents.ts'
import { type Began, type Embed, type Tour, type TourResult, talk, timed } from './tour-talk.ts'

const documentsMax = 300
const upsertPoints = 50
const collection = 'knowledgebase'
const queries = [
  'how do I validate JSON against a schema',
  'connect to a Postgres database',
  'a fast HTTP server with routes',
]
const auditWaitMs = 30_000
/** For removing what was made, also after Ctrl-C. */
const removeMs = 20_000
/** Handshake, verify and one search at least. */
const auditNotesMin = 3

const interrupted = new AppError('shutting_down', 'The tour was interrupted; what it made is removed.')

export async function runTour(
  cli: Cli,
  options: { vectorUrl: string; runUrl: string | undefined; folder: string; quiet: boolean },
): Promise<TourResult> {
  const agentId = `tour-${randomBytes(4).toString('hex')}`
  const result: TourResult = {
    agent_id: agentId,
    documents: 0,
    steps: [],
    searches: [],
    said: [],
    audit_notes: [],
    lag: [],
  }
  const output = options.quiet ? { item() {}, progress() {}, end() {} } : createOutput(() => {})
  const embedder = await openLocalEmbedder(cli)
  const began: Began = { cli, output, result, stored: [] }
  try {
    const agent = await timed(
      began,
      'provision an agent',
      () =>
        cli.execute(
          provisionAgentAction,
          { agent_id: agentId, role: 'tourist', volume: options.folder },
          output,
        ),
      ({ agent_id, public_key_fingerprint }) => `${agent_id}, ${public_key_fingerprint}`,
    )
    const { vectorUrl, runUrl } = options
    began.client = createClient({ vectorUrl, runUrl, agentId, privateKeyFile: agent.private_key_file })
    const tour = { ...began, client: began.client, embed: embedder.embed }
    await walk(tour)
    if (runUrl !== undefined) await talk(tour)
    await timed(
      tour,
      'wait for the audit notes',
      () => auditNotes(tour),
      (notes) => `${notes} notes`,
    )
    result.lag = (await cli.execute(lagOperation, {}, output)).groups.map(({ group, lag }) => ({
      group,
      lag,
    }))
    await timed(
      began,
      'remove what it made',
      () => remove(began),
      () => `${agentId} and its ${began.stored.length} points`,
    )
  } catch (error) {
    throw await afterRemoving(began, error)
  } finally {
    output.end()
    await began.client?.close()
    await embedder.close()
  }
  return result
}

/** The points first: only an agent can delete them. Acts also when the operator has given up. */
async function remove({ cli, client, output, result, stored }: Began): Promise<void> {
  const signal = AbortSignal.timeout(removeMs)
  if (client && stored.length > 0) {
    await client.waitFor(await client.delete(collection, stored, { wait: true, signal }), { signal })
  }
  const session = { env: cli.env, output, signal }
  await execute(deleteAgentAction, { agent_id: result.agent_id }, session)
}

/** The error to report: what ended the tour, and what could not be removed. */
async function afterRemoving(began: Began, error: unknown): Promise<unknown> {
  const { agent_id: agentId } = began.result
  const reason = began.cli.signal.aborted ? interrupted : error
  try {
    await remove(began)
    return reason
  } catch (left) {
    // It ended before there was an agent.
    if (left instanceof AppError && left.code === 'not_found') return reason
    return new AppError(
      reason instanceof AppError ? reason.code : 'internal_error',
      `${describeError(reason)}. What the tour made could not be removed (${describeError(left)}): the agent ${agentId} ` +
        `(\`flotilla agents delete ${agentId}\`), and points of ${collection} whose ids begin with ${agentId}.`,
    )
  }
}

async function walk(tour: Tour): Promise<void> {
  const { cli, client, result } = tour
  const { signal } = cli
  await timed(
    tour,
    'prove its identity',
    () => client.count(collection, { signal }),
    (points) => `${plural(points, 'point')} in ${collection} before`,
  )
  const documents = await timed(
    tour,
    'find Markdown documents',
    async () => findDocuments(documentsMax, result.agent_id),
    (found) => `${found.length}`,
  )
  if (documents.length === 0)
    throw new AppError('not_found', 'There are no Markdown documents below node_modules.')
  result.documents = documents.length
  const vectors = await timed(
    tour,
    'embed them',
    () => tour.embed(documents.map((one) => one.text)),
    (made) => `${made.length} vectors`,
  )
  await timed(
    tour,
    'store them',
    () => store(tour, documents, vectors),
    (count) => `${count} points, applied`,
  )
  await timed(
    tour,
    'find one by its own text',
    () => findItself(tour, documents[0]!, vectors[0]!),
    (score) => `score ${score.toFixed(3)}`,
  )
  for (const query of queries) await search(tour, query)
}

async function store(
  { cli, client, output, stored }: Tour,
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
    stored.push(...points.map(({ id }) => id))
    // Not cut off by the signal: what the gateway has begun would be stored after it was removed.
    const { status } = await client.upsert(collection, points, { wait: true })
    cli.signal.throwIfAborted()
    if (status !== 'applied') throw new AppError('not_yet_applied', `An upsert is still ${status}.`)
    output.progress({
      label: 'storing',
      done: Math.min(from + upsertPoints, documents.length),
      total: documents.length,
    })
  }
  return documents.length
}

async function findItself(
  { cli, client }: Tour,
  document: TourDocument,
  vector: Float32Array,
): Promise<number> {
  const { results } = await client.search({ collection, vector, limit: 5, signal: cli.signal })
  const itself = results.find((hit) => hit.id === document.id)
  if (!itself || itself.score < 0.99)
    throw new AppError('point_not_found', `${document.path} does not find itself.`)
  return itself.score
}

async function search({ cli, client, embed, result }: Tour, query: string): Promise<void> {
  const [vector] = await embed([query])
  const found = await client.search({ collection, vector: vector!, limit: 3, signal: cli.signal })
  if (found.results.length === 0) throw new AppError('point_not_found', `Nothing was found for "${query}".`)
  const hits = found.results.map(({ id, score, payload }) => ({
    id,
    score,
    title: String(payload?.title ?? id),
  }))
  result.searches.push({ query, took_ms: found.took_ms, hits })
}

/** Notes are written some moments after the operations that they are about. */
async function auditNotes({ cli, client, result }: Tour): Promise<number> {
  const filter = { must: [{ key: 'tags', match: { value: result.agent_id } }] }
  const { signal } = cli
  const until = Date.now() + auditWaitMs
  for (;;) {
    const { points } = await client.scroll({ collection: 'fleet_notes', limit: 50, filter, signal })
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
    await sleep(500, signal)
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
