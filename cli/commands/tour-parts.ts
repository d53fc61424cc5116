/** What the steps of the tour share: its agent, its questions, its result, and how a step is run. */

import type { Client } from '#client/client.ts'
import { AppError } from '#lib/errors.ts'
import type { Shown } from '#operations/action.ts'
import type { Output } from '#runtime/start/control.ts'
import type { Cli } from '../cli.ts'
import { createOutput, line, noOutput, showNow } from '../output.ts'
import type { Addresses, ExampleAgent } from './example-agents.ts'

export const tourAgent: ExampleAgent = {
  agent_id: 'tour',
  role: 'tourist',
  name: 'Tour',
  tier: 'research-agent',
}
export const collection = 'knowledgebase'
/** Where `--kill` stores points. */
export const killCollection = 'almemsha'
export const tourTag = 'tour'
/** Natural questions, and the page that answers each. */
export const questions: readonly { query: string; page: string }[] = [
  { query: 'Where is the one-time password of the first admin?', page: 'docs/operations.md' },
  { query: 'How do I use a model of Ollama on this machine?', page: 'docs/embeddings.md' },
  { query: 'Which headers does a receiver of webhooks get?', page: 'docs/webhook-courier.md' },
  { query: 'How do agents call each other by mentions?', page: 'docs/runs.md' },
]

export const interrupted = () =>
  new AppError(
    'shutting_down',
    'The tour was interrupted. What it made stays: `flotilla tour --clean` removes it.',
  )

export interface Said {
  agent: string
  text: string
}

export interface FoundHit {
  id: string
  score: number
  title: string
  path: string
}

export interface TourResult {
  agent_id: string
  documents: number
  steps: { step: string; took_ms: number; found: string }[]
  searches: { query: string; took_ms: number; hits: FoundHit[] }[]
  /** By agents, the beginning of each answer. */
  said: Said[]
  /** Their numbers at the hub. */
  notes: number[]
  goals: number[]
  audit_notes: { title: string; status_code: number | null; took_ms: number | null }[]
  lag: { group: string; lag: number; members: number }[]
  /** Where to look on, on a running platform with a console. */
  console_url: string | null
}

/** What the steps share from the first one on. */
export interface Began {
  cli: Cli
  output: Output & { end(): void }
  result: TourResult
  /** Shows lines at once, but not with --json. */
  say(shown: Shown): void
}

export interface Tour extends Began {
  client: Client
  /** The agent's private key. */
  keyFile: string
  addresses: Addresses
}

/** Where steps show their progress; nowhere when `quiet`, for --json. */
export function openShown(quiet: boolean): Pick<Began, 'output' | 'say'> {
  if (quiet) return { output: { ...noOutput, end() {} }, say() {} }
  return { output: createOutput(() => {}), say: showNow }
}

/** Runs one step: its line is shown when it is done. What it throws ends the tour. */
export async function timed<T>(
  { cli, output, result, say }: Pick<Began, 'cli' | 'output' | 'say'> & { result: Pick<TourResult, 'steps'> },
  step: string,
  work: () => Promise<T>,
  shown: (value: T) => string,
): Promise<T> {
  cli.signal.throwIfAborted()
  const startedAt = performance.now()
  const value = await work()
  const done = { step, took_ms: Math.round(performance.now() - startedAt), found: shown(value) }
  result.steps.push(done)
  output.end()
  say(line`${step.padEnd(40)} ${String(done.took_ms).padStart(6)} ms  ${done.found}`)
  return value
}
