/** One load on one stack: opens it, lets the agents work, samples it, and checks the promises at the end. */

import { setTimeout as pause } from 'node:timers/promises'
import { type Forked, openForked } from '../forked.ts'
import { type Costs, measureCosts, untilAtRest } from './costs.ts'
import { type Heap, readHeaps } from './heaps.ts'
import type { LoadCalls, LoadResult } from './load-process.ts'
import { agentCount, type Kind, type StackName } from './mix.ts'
import { behind, type Observation, observe } from './observations.ts'
import type { CheckedPromises } from './promises.ts'
import { openStack, type Stack, watch } from './stack.ts'
import type { Delivered, SurroundingsCalls } from './surroundings-process.ts'

const observeMs = 10_000
/** The queues of the log are empty within this after the load, or the trial says how much was left. */
const quietMsMax = 120_000
const provisionedAtOnce = 4

export interface TrialOptions {
  stack: StackName
  minutes: number
  /** Memory at the end is compared with memory at this minute. */
  settledAfterMinutes: number
  perSecond: number
  /** This kind of request alone. */
  only?: Kind
}

/** How a part of the load left the platform. */
export interface PartEnd {
  /** At its last answer. */
  seen: Observation
  /** Once nothing waited any more; `left` where that took too long. */
  quiet: { seconds: number; left: number; seen: Observation }
  /** At rest, after a collection in every thread of the platform. */
  heaps: Heap[]
  rested: Observation
}

export interface TrialResult extends TrialOptions {
  load: LoadResult
  observations: Observation[]
  begun: Observation
  /** Work added by the load: records of topics, transactions. */
  counts: Record<string, number>
  settled: PartEnd
  end: PartEnd
  promises: CheckedPromises
  delivered: Record<string, Delivered>
  /** Absent where one kind alone was asked for. */
  costs?: Costs
  missing: { fired: number; undelivered: number; runs: number; notOnce: number; first?: string }
}

export async function runTrial(options: TrialOptions, report: (text: string) => void): Promise<TrialResult> {
  const surroundings = openForked<SurroundingsCalls>(new URL('./surroundings-process.ts', import.meta.url))
  const load = openForked<LoadCalls>(new URL('./load-process.ts', import.meta.url))
  let stack: Stack | undefined
  try {
    stack = await openStack(options.stack, await surroundings.call('open', null), report)
    stack.watched.push(watch('load generator', [load.pid]), watch('receivers, nodes', [surroundings.pid]))
    const agents = await provisionAgents(stack)
    report(`  ${options.stack}: ${agents.length} agents are provisioned`)
    await load.call('open', { addresses: stack.addresses, agents, adminToken: await stack.admin.idToken() })
    await untilQuiet(stack, 0)
    report('  each has a gateway key and its points')
    const during = await underLoad(stack, load, options, report)
    const missing = await surroundings.call('missing', await load.call('promised', null))
    const delivered = await surroundings.call('delivered', null)
    const opened = stack
    const costs = options.only
      ? undefined
      : await measureCosts(opened, load, () => untilQuiet(opened, 0), report)
    return { ...options, ...during, missing, delivered, ...(costs ? { costs } : {}) }
  } finally {
    await Promise.all([load.close(), stack?.close()])
    await surroundings.close()
  }
}

async function provisionAgents({ admin }: Stack): Promise<{ id: string; privateKeyPem: string }[]> {
  const made: { id: string; privateKeyPem: string }[] = []
  let next = 0
  const worker = async () => {
    while (next < agentCount) {
      const id = `agent-${String(next++).padStart(3, '0')}`
      const { private_key: privateKeyPem } = await admin.request<{ private_key: string }>('POST', 'agents', {
        body: { agent_id: id, access: 'member' },
      })
      made.push({ id, privateKeyPem })
    }
  }
  await Promise.all(Array.from({ length: provisionedAtOnce }, worker))
  return made
}

/** In two parts: between them nobody asks for anything, so that memory is read at rest, as at the end. */
async function underLoad(
  stack: Stack,
  load: Forked<LoadCalls>,
  options: TrialOptions,
  report: (text: string) => void,
) {
  const clock = createClock()
  const begun = await observe(stack, 0)
  const countsBefore = await stack.counts()
  const observations: Observation[] = []
  const part = async (fromMinute: number, toMinute: number) => {
    const { perSecond, only } = options
    const seconds = (toMinute - fromMinute) * 60
    const asked = { fromSecond: fromMinute * 60, seconds, perSecond, ...(only ? { only } : {}) }
    let before = await observe(stack, clock.seconds())
    clock.go()
    const running = load.call('run', asked)
    await watchLoad(running, async () => {
      const seen = await observe(stack, clock.seconds())
      report(progressText(before, seen, await load.call('progress', null)))
      before = seen
      observations.push(seen)
    })
    clock.stop()
    return readAtRest(stack, clock.seconds())
  }
  const settled = await part(0, options.settledAfterMinutes)
  const end = await part(options.settledAfterMinutes, options.minutes)
  const counts = difference(await stack.counts(), countsBefore)
  const result = await load.call('result', null)
  return {
    load: result,
    observations,
    begun,
    counts,
    settled,
    end,
    promises: await load.call('check', null),
  }
}

/** Calls `look` every ten seconds until the load is over. */
async function watchLoad(running: Promise<void>, look: () => Promise<void>): Promise<void> {
  let over = false
  const ended = running.finally(() => {
    over = true
  })
  const begun = performance.now()
  for (let at = begun + observeMs; ; at += observeMs) {
    await Promise.race([pause(Math.max(0, at - performance.now()), undefined, { ref: false }), ended])
    if (over) break
    await look()
  }
  await ended
}

/** Seconds of load, without the pause in which memory is read. */
function createClock() {
  let before = 0
  let since: number | null = null
  const seconds = () => before + (since === null ? 0 : (performance.now() - since) / 1_000)
  return {
    seconds,
    go() {
      since = performance.now()
    },
    stop() {
      before = seconds()
      since = null
    },
  }
}

function difference(after: Record<string, number>, before: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(after).map(([name, count]) => [name, count - (before[name] ?? 0)]))
}

/** Waits until all records are worked off and indexes merged: memory would be read at moments of work otherwise. */
async function readAtRest(stack: Stack, seconds: number): Promise<PartEnd> {
  const seen = await observe(stack, seconds)
  const quiet = await untilQuiet(stack, seconds)
  await untilAtRest(stack)
  return { seen, quiet, heaps: await readHeaps(stack.inspectorUrl), rested: await observe(stack, seconds) }
}

/** Nothing waits in the log; `left` where that took too long. */
async function untilQuiet(stack: Stack, seconds: number): Promise<PartEnd['quiet']> {
  const from = performance.now()
  for (;;) {
    const seen = await observe(stack, seconds)
    const left = behind(seen)
    const tookMs = performance.now() - from
    if (left === 0 || tookMs > quietMsMax) return { seconds: tookMs / 1_000, left, seen }
    // The state of the platform is read at most once a second.
    await pause(1_000)
  }
}

type Progress = Awaited<ReturnType<LoadCalls['progress']>>

function progressText(before: Observation, seen: Observation, load: Progress): string {
  const passed = seen.seconds - before.seconds
  const cores = (name: string) =>
    (((seen.processor[name]! - before.processor[name]!) / passed) * 100).toFixed(0).padStart(3)
  const all = Object.keys(seen.processor).reduce((sum, name) => sum + Number(cores(name)), 0)
  const minute = `${Math.floor(seen.seconds / 60)}:${String(Math.floor(seen.seconds % 60)).padStart(2, '0')}`
  return [
    `  ${minute.padStart(5)}  ${(load.answered / passed).toFixed(1)}/s`,
    `errors ${load.errors}`,
    `p95 ${load.p95.toFixed(1)} ms, of searches ${load.searchP95.toFixed(1)} ms`,
    `behind ${behind(seen)}`,
    `platform ${(seen.memory.platform! / 1e6).toFixed(0)} MB ${cores('platform')} %, all ${all} % of a core`,
    `load generator ${cores('load generator')} %`,
  ].join('; ')
}
