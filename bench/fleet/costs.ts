/** The cost of one request of each kind: each kind alone for a while, less the cost of that time without requests. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Forked } from '../forked.ts'
import type { LoadCalls } from './load-process.ts'
import { type Kind, kinds } from './mix.ts'
import { observe } from './observations.ts'
import type { Stack } from './stack.ts'

const perSecond = 10
const secondsOfKind = 10
/** The platform is at rest when it uses less than this share of a core, and is waited for so long. */
const restShare = 0.05
const lookSeconds = 5
const restSecondsMax = 240

export interface Costs {
  /** For a second without requests. */
  idle: Spent
  /** For one request. */
  byKind: Record<Kind, Spent>
}

interface Spent {
  /** Seconds of the processor, by the name of the process. */
  processor: Record<string, number>
  /** Bytes given to disks. */
  written: Record<string, number>
  /** Records of topics, transactions, bytes of WAL. */
  counts: Record<string, number>
}

/** `untilQuiet` resolves when what a load left in the log is worked off. */
export async function measureCosts(
  stack: Stack,
  load: Forked<LoadCalls>,
  untilQuiet: () => Promise<unknown>,
  report: (text: string) => void,
): Promise<Costs> {
  await untilAtRest(stack)
  const idle = await measure(stack, () => pause(secondsOfKind * 1_000))
  const idleOfSecond = combine(idle.spent, idle.spent, (value) => value / idle.seconds)
  const found: [Kind, Spent][] = []
  for (const kind of kinds) {
    const { spent, seconds } = await measure(stack, async () => {
      await load.call('run', { fromSecond: 0, seconds: secondsOfKind, perSecond, only: kind })
      await untilQuiet()
    })
    const requests = secondsOfKind * perSecond
    const cost = combine(spent, idleOfSecond, (value, idle) => Math.max(0, value - idle * seconds) / requests)
    found.push([kind, cost])
    const ms = Object.entries(cost.processor).map(([name, of]) => `${name} ${(of * 1_000).toFixed(1)}`)
    report(`  a ${kind} alone, ms of processor: ${ms.join(', ')}`)
  }
  return { idle: idleOfSecond, byKind: Object.fromEntries(found) as Record<Kind, Spent> }
}

/** Indexes are merged after a load, too, and that is no part of what rest is. Gives up after some minutes. */
export async function untilAtRest({ watched }: Stack): Promise<void> {
  const [platform] = watched
  for (let waited = 0; waited < restSecondsMax; waited += lookSeconds) {
    const before = platform!.processor()
    await pause(lookSeconds * 1_000)
    if ((platform!.processor() - before) / lookSeconds < restShare) return
  }
}

async function measure(
  stack: Stack,
  work: () => Promise<unknown>,
): Promise<{ spent: Spent; seconds: number }> {
  const read = async (): Promise<Spent> => {
    const { processor, written } = await observe(stack, 0)
    return { processor, written, counts: await stack.counts() }
  }
  const before = await read()
  const begun = performance.now()
  await work()
  const seconds = (performance.now() - begun) / 1_000
  return { spent: combine(await read(), before, (after, was) => after - was), seconds }
}

function combine(a: Spent, b: Spent, of: (a: number, b: number) => number): Spent {
  const each = (which: keyof Spent) =>
    Object.fromEntries(
      Object.entries(a[which]).map(([name, value]) => [name, of(value, b[which][name] ?? 0)]),
    )
  return { processor: each('processor'), written: each('written'), counts: each('counts') }
}
