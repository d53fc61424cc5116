/** Lane mode under whatever handlers, members and the log do at once: nothing is lost, skipped, overtaken or stuck. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  done,
  type Hold,
  keepTrying,
  type Outcome,
  park,
  postpone,
  retry,
  unavailable,
} from '#lib/outcome.ts'
import { LaneWakeups } from '#runtime/consume/consumer.ts'
import { createHarness, type Work } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'
import { propertyRuns } from '../support/property-runs.ts'

/** Enough that a partition's share of memory is smallest: lanes are full with a few records. */
const partitions = Array.from({ length: 256 }, (_, n) => n)
const outcomes: Record<string, () => Outcome | Hold> = {
  retry: () => retry('again'),
  keepTrying: () => keepTrying('away', 1, 1),
  postpone: () => postpone('later', 1, 0),
  unavailable: () => unavailable('engine', 'away'),
}

interface Job {
  lane: number
  kilobytes: number
  /** Turns of the event loop that a call takes. */
  turns: number
  /** The outcomes of the first calls. */
  before: string[]
  parked: boolean
}

interface Shape {
  lanes: number
  /** Added to each body. */
  kilobytes: number
  chunkRecordsMax: number
  concurrency: number
}

interface Disturbance {
  /** When this number of records is settled. */
  at: number
  kind: 'move' | 'away' | 'again' | 'wake'
}

const job: fc.Arbitrary<Job> = fc.record({
  lane: fc.nat(5),
  kilobytes: fc.oneof(fc.constant(0), fc.constant(0), fc.nat(60)),
  turns: fc.nat(3),
  before: fc.oneof(
    { weight: 4, arbitrary: fc.constant<string[]>([]) },
    { weight: 1, arbitrary: fc.array(fc.constantFrom(...Object.keys(outcomes)), { maxLength: 2 }) },
  ),
  parked: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
})
const disturbance: fc.Arbitrary<Disturbance> = fc.record({
  at: fc.nat(150),
  kind: fc.constantFrom('move', 'again', 'wake', 'wake', 'away'),
})

/** One handler for all members: it follows the jobs' plans, and notes what must not be. */
function createWorld(jobs: Job[]) {
  const calls = new Map<number, number>()
  const settled = new Set<number>()
  const running = new Set<number>()
  const faults: string[] = []
  async function handle({ offset }: Work, { signal }: { signal: AbortSignal }): Promise<Outcome | Hold> {
    const { lane, turns, before, parked } = jobs[offset]!
    if (running.has(lane)) faults.push(`${offset} runs while another of its lane does`)
    const overtaken = jobs.findIndex((one, n) => n < offset && one.lane === lane && !settled.has(n))
    if (overtaken >= 0) faults.push(`${offset} overtakes ${overtaken}`)
    running.add(lane)
    try {
      for (let n = 0; n < turns; n++) await nextTurn()
      if (signal.aborted) throw new Error('given up')
      const nth = calls.get(offset) ?? 0
      calls.set(offset, nth + 1)
      const outcome = before[nth]
      if (outcome !== undefined) return outcomes[outcome]!()
      settled.add(offset)
      return parked ? park('poison') : done
    } finally {
      running.delete(lane)
    }
  }
  return { settled, running, faults, handle }
}

async function run(drawn: Job[], disturbances: Disturbance[], shape: Shape) {
  const { lanes, chunkRecordsMax, concurrency } = shape
  const jobs = drawn.map((one) => ({
    ...one,
    lane: one.lane % lanes,
    kilobytes: one.kilobytes + shape.kilobytes,
  }))
  const log = createMemoryLog({ chunkRecordsMax })
  const harness = await createHarness(log, { partitions: partitions.length })
  const world = createWorld(jobs)
  const wakeups = [new LaneWakeups(), new LaneWakeups()]
  const consumers = await Promise.all(
    wakeups.map((one) =>
      harness.startLanes({ retriesMax: 10, concurrency, wakeups: one, handle: world.handle }),
    ),
  )
  const committed = () => log.commits.findLast((one) => one.partition === 0)?.offset ?? 0
  const entries = jobs.map(({ lane, kilobytes }) => ({
    key: `lane-${lane}`,
    value: { text: 'x'.repeat(kilobytes * 1_024) },
  }))
  let owner = 0
  await log.members[0]!.gain(partitions)
  await log.members[1]!.gain([])
  const half = Math.ceil(entries.length / 2)
  await harness.add(0, entries.slice(0, half))
  const acts: Record<Disturbance['kind'], () => Promise<void> | void> = {
    async move() {
      log.members[owner]!.lose([0])
      await eventually('its calls have ended', () => world.running.size === 0)
      owner = 1 - owner
      await log.members[owner]!.gain([0])
    },
    async away() {
      log.away = true
      for (let n = 0; n < 20; n++) await nextTurn()
      log.away = false
    },
    again: () => void log.members[owner]!.answers.push('again'),
    wake: () => wakeups[owner]!.wake(0),
  }
  for (const { at, kind } of disturbances.toSorted((a, b) => a.at - b.at)) {
    for (let n = 0; n < 200 && world.settled.size < Math.min(at, half); n++) await nextTurn()
    await acts[kind]()
  }
  await harness.add(0, entries.slice(half))
  const state = () => JSON.stringify({ settled: world.settled.size, committed: committed() })
  await eventually('all are committed', () => committed() === jobs.length).catch((error) => {
    throw new Error(`${error} ${state()}`)
  })
  const letters = await harness.deadLetters()
  await Promise.all(consumers.map((consumer) => consumer.close()))
  expect(world.faults).toEqual([])
  expect(world.settled.size).toBe(jobs.length)
  expect(letters.size).toBe(jobs.filter((one) => one.parked).length)
}

test('every record is settled in the order of its lane, whatever comes together', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(job, { minLength: 1, maxLength: 150 }),
      fc.array(disturbance, { maxLength: 6 }),
      fc.record({
        lanes: fc.integer({ min: 1, max: 6 }),
        kilobytes: fc.constantFrom(0, 20, 30),
        chunkRecordsMax: fc.constantFrom(1, 7, 20, 40, 500),
        concurrency: fc.constantFrom(1, 3, 16),
      }),
      run,
    ),
    { numRuns: propertyRuns(25), endOnFailure: true },
  )
}, 600_000)
