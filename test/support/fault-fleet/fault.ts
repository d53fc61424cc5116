/** One fault under load: it begins, lasts, is healed; what users saw, when all was well again, and any losses. */

import { sleep } from '#lib/backoff.ts'
import { checkFleet } from './checks.ts'
import type { FaultFleet } from './fleet.ts'
import type { CallOutcome, Kind, Line } from './load.ts'

export interface FleetFault {
  /** As the table names it. */
  name: string
  /** How long it lasts, in a short run and in a full one. */
  seconds: { short: number; full: number }
  /** False where it cannot be tried. Absent: everywhere. */
  needs?(fleet: FaultFleet): boolean
  begin(fleet: FaultFleet): Promise<void> | void
  /** Only what heals it; nothing is done to a platform. */
  heal(fleet: FaultFleet): Promise<void> | void
}

export interface FaultResult {
  name: string
  seconds: number
  calls: number
  /** Status and code → how many calls. */
  refused: Map<string, number>
  /** The longest time in which no call of one kind at one platform succeeded. */
  pause: { kind: Kind; platform: string; ms: number }
  /** From the end of healing until every kind of call had succeeded at every platform, and failed no more. */
  servedAfterMs: number
  /** From then until every group had read all records written by then. */
  readAfterMs: number
  /** Empty: nothing was lost, repeated or out of order. */
  faults: string[]
}

const readyMsMax = 120_000
const recoveredMsMax = 120_000
const settleMs = 1_500
const lookEveryMs = 200
const reportEveryMs = 10_000
/** So many successes without a failure between say that a line works. */
const works = 4

/** `report` is called at each step, and every few seconds with the condition that is awaited. */
export async function runFault(
  fleet: FaultFleet,
  fault: FleetFault,
  seconds: number,
  report: (text: string) => void = () => {},
): Promise<FaultResult> {
  const { load } = fleet
  const { lines } = load
  for (const line of lines) line.calls.length = 0
  const until = waiting(lines, report)
  load.start()
  try {
    const from = performance.now()
    await until('the work begins', () => lines.every((line) => worksSince(line, from)), readyMsMax)
    await sleep(settleMs)
    report(`begins: ${fault.name}`)
    const begunAt = performance.now()
    try {
      await fault.begin(fleet)
      await sleep(seconds * 1_000)
    } finally {
      await fault.heal(fleet)
    }
    const healedAt = performance.now()
    report(`healed: ${fault.name}`)
    const wait = (what: string, check: () => boolean | Promise<boolean>) =>
      until(`${what} after: ${fault.name}`, check, recoveredMsMax)
    const [readAfterMs] = await Promise.all([
      readAfter(fleet, healedAt, wait),
      wait('all is served', () => lines.every((line) => worksSince(line, healedAt))),
    ])
    report('all is served, and what there was is read')
    await load.stop()
    await wait('every group has read all', async () =>
      (await fleet.positions()).every(({ committed, end }) => committed >= end),
    )
    report('every group has read all')
    return {
      name: fault.name,
      seconds,
      ...seen(lines, begunAt),
      servedAfterMs: Math.max(0, ...lines.map((line) => servedAt(line, healedAt) - healedAt)),
      readAfterMs,
      faults: await checkFleet({ ...fleet, acknowledged: load.acknowledged }),
    }
  } finally {
    await load.stop()
  }
}

/** When the groups have read what there was at the first look after the fault. */
async function readAfter(
  fleet: FaultFleet,
  healedAt: number,
  wait: (what: string, check: () => Promise<boolean>) => Promise<void>,
): Promise<number> {
  let ends: Map<string, number> | undefined
  await wait('every group has read all records', async () => {
    const positions = await fleet.positions()
    ends ??= new Map(positions.map(({ name, end }) => [name, end]))
    const behind = positions.filter(({ name, committed }) => committed < (ends?.get(name) ?? 0))
    if (behind.length === 0) return true
    throw new Error(
      behind.map(({ name, committed }) => `${name} is at ${committed} of ${ends?.get(name)}`).join(', '),
    )
  })
  return performance.now() - healedAt
}

function worksSince({ calls }: Line, at: number): boolean {
  const last = calls.slice(-works)
  return last.length === works && last.every(({ begunAt, fault }) => fault === null && begunAt >= at)
}

/** The end of the first success behind the last failure, or of the first call after the healing. */
function servedAt({ calls }: Line, healedAt: number): number {
  const lastFailure = calls.findLastIndex(({ fault }) => fault !== null)
  const served = calls.slice(lastFailure + 1).find(({ endedAt }) => endedAt >= healedAt)
  const failedAfter = lastFailure >= 0 && (calls[lastFailure] as CallOutcome).endedAt > healedAt
  return failedAfter || tookLong(served) ? (served?.endedAt ?? healedAt) : healedAt
}

/** A call that waited for the healing, unlike one that came by. */
function tookLong(call: CallOutcome | undefined): boolean {
  return call !== undefined && call.endedAt - call.begunAt > 1_000
}

function seen(lines: readonly Line[], begunAt: number): Pick<FaultResult, 'calls' | 'refused' | 'pause'> {
  const refused = new Map<string, number>()
  let calls = 0
  let pause = { kind: lines[0]!.kind, platform: '', ms: 0 }
  for (const line of lines) {
    let successAt = begunAt
    for (const { endedAt, fault } of line.calls) {
      if (endedAt < begunAt) continue
      calls += 1
      if (fault !== null) {
        refused.set(fault, (refused.get(fault) ?? 0) + 1)
        continue
      }
      const ms = endedAt - successAt
      if (ms > pause.ms) pause = { kind: line.kind, platform: line.platform, ms }
      successAt = endedAt
    }
  }
  return { calls, refused, pause }
}

/** Polls without loading the platform; throws with the last answers of every line. */
function waiting(lines: readonly Line[], report: (text: string) => void) {
  const answers = () =>
    lines.map(({ kind, platform, calls }) => {
      const some = calls.slice(-works).map(({ fault }) => fault ?? 'ok')
      return `  ${kind} at ${platform}: ${some.join(', ') || 'no answer'}`
    })
  return async (what: string, check: () => boolean | Promise<boolean>, timeoutMs: number): Promise<void> => {
    const begun = performance.now()
    let last: unknown
    let reports = 0
    const described = () => `${what} (${last ?? 'no error'})\n${answers().join('\n')}`
    for (let elapsed = 0; elapsed < timeoutMs; elapsed = performance.now() - begun) {
      try {
        if (await check()) return
        last = undefined
      } catch (error) {
        last = error
      }
      if (elapsed > reportEveryMs * (reports + 1)) report(`still waits, ${++reports}: ${described()}`)
      await sleep(lookEveryMs)
    }
    throw new Error(`not within ${timeoutMs} ms: ${described()}`)
  }
}
