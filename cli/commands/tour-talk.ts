/**
 * What the steps of the tour share, and those in which agents talk: one that another one joins, and all of them
 * together.
 */

import type { createClient, RunEvent } from '#client/client.ts'
import { AppError } from '#lib/errors.ts'
import type { Output } from '#runtime/start/control.ts'
import type { Cli } from '../cli.ts'

const question = 'Where is it said how to validate JSON against a schema? PULSE, do you know?'
const toAll = 'Which documents are about HTTP servers?'
const shownMax = 200
/** Where the nodes file names other agents, or none of them runs. */
const noAgents: ReadonlySet<unknown> = new Set(['agent_not_found', 'node_unavailable'])

export async function talk(tour: Tour): Promise<void> {
  const isThere = await timed(
    tour,
    'ask an agent, and another one by name',
    () => askTwo(tour),
    (there) => (there ? 'both answered' : 'no agents run here'),
  )
  if (!isThere) return
  await timed(
    tour,
    'ask all agents',
    () => askAll(tour),
    (answered) => `${answered} answered, AXON concluded`,
  )
}

async function askTwo({ cli, client, result }: Tour): Promise<boolean> {
  const { signal } = cli
  try {
    const { events } = await client.run('atlas', question, { signal })
    result.said.push(...events.map(saidOf))
  } catch (error) {
    if (noAgents.has((error as { code?: unknown }).code)) return false
    throw error
  }
  for (const wanted of ['ATLAS', 'PULSE']) {
    if (!result.said.some(({ agent }) => agent === wanted)) {
      throw new AppError('agent_error', `${wanted} did not answer.`)
    }
  }
  return true
}

async function askAll({ cli, client, result }: Tour): Promise<number> {
  const { signal } = cli
  const { goalId } = await client.dispatch(toAll, { signal })
  const stream = await client.dispatches.stream(goalId, { signal })
  for await (const _ of stream) cli.signal.throwIfAborted()
  const ended = stream.result!
  if (ended.status !== 'completed' || ended.result === null) {
    throw new AppError('agent_error', `The dispatch ${goalId} is ${ended.status}.`)
  }
  result.said.push({ agent: 'AXON', text: shortened(ended.result) })
  return ended.runs.length
}

function saidOf({ author, content }: RunEvent): { agent: string; text: string } {
  return { agent: author, text: shortened((content?.parts ?? []).map(({ text }) => text ?? '').join('')) }
}

function shortened(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > shownMax ? `${line.slice(0, shownMax).toWellFormed()}…` : line
}

export interface TourResult {
  agent_id: string
  documents: number
  steps: { step: string; took_ms: number; found: string }[]
  searches: { query: string; took_ms: number; hits: { id: string; score: number; title: string }[] }[]
  /** By agents, the beginning of each answer. */
  said: { agent: string; text: string }[]
  audit_notes: { title: string; status_code: number | null; took_ms: number | null }[]
  lag: { group: string; lag: number }[]
}

type Client = ReturnType<typeof createClient>
export type Embed = (texts: string[]) => Promise<Float32Array[]>

/** What there is to remove, from the first step on. */
export interface Began {
  cli: Cli
  output: Output
  result: TourResult
  client?: Client
  /** Points that may have been stored. */
  stored: string[]
}

export interface Tour extends Began {
  client: Client
  embed: Embed
}

export async function timed<T>(
  { cli, result }: Began,
  step: string,
  work: () => Promise<T>,
  show: (value: T) => string,
): Promise<T> {
  cli.signal.throwIfAborted()
  const startedAt = performance.now()
  const value = await work()
  result.steps.push({ step, took_ms: Math.round(performance.now() - startedAt), found: show(value) })
  return value
}
