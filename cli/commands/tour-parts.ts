/** What the steps of the tour share: what they work on, and how each is timed. */

import type { createClient } from '#client/client.ts'
import type { Output } from '#runtime/start/control.ts'
import type { Cli } from '../cli.ts'

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

export type Client = ReturnType<typeof createClient>
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
