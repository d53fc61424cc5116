/** Lane mode: heads held for as long as their handler says, and the history that a restart restores. */

import { describe, expect, test } from 'vitest'
import { done, type Hold, keepTrying, type Outcome, park, postpone } from '#lib/outcome.ts'
import { LaneWakeups } from '#runtime/consume/consumer.ts'
import { killsMax, retryingLanesMax } from '#runtime/consume/limits.ts'
import { decodeMetadata } from '#runtime/consume/metadata.ts'
import { commitAs } from '#test/support/consumer-commits.ts'
import { createHarness } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog, type MemoryLog } from '#test/support/memory-log.ts'

async function started(partitions = 1) {
  const log = createMemoryLog()
  return { log, harness: await createHarness(log, { partitions }) }
}

const lastCommit = (log: MemoryLog, partition = 0) =>
  log.commits.findLast((commit) => commit.partition === partition) ?? { offset: 0, metadata: '' }
const lastSaved = (log: MemoryLog) => decodeMetadata(lastCommit(log).metadata, lastCommit(log).offset)!
const keyed = (keys: string[]) => keys.map((key) => ({ key }))

describe('a head that is held', () => {
  test('is tried for as long as it takes and never parked; other lanes go on', async () => {
    const { log, harness } = await started()
    const seen: string[] = []
    await harness.startLanes({
      retriesMax: 2,
      async handle({ key, offset }, { attempt, retriesUsed }): Promise<Outcome | Hold> {
        seen.push(`${key}${offset}#${attempt}/${retriesUsed}`)
        return offset === 0 && attempt < 20 ? keepTrying('away', 1, Math.min(retriesUsed + 1, 3)) : done
      },
    })
    await harness.add(0, keyed(['held', 'other', 'held']))
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => lastCommit(log).offset === 3)
    const held = seen.filter((one) => one.startsWith('held0'))
    expect(held).toHaveLength(20)
    expect(held.slice(0, 5)).toEqual(['held0#1/0', 'held0#2/1', 'held0#3/2', 'held0#4/3', 'held0#5/3'])
    expect(seen.at(-1)).toBe('held2#1/0')
    expect((await harness.deadLetters()).size).toBe(0)
  })

  test('keeps its attempts and used retries over a restart', async () => {
    const { log, harness } = await started()
    const first = await harness.startLanes({
      handle: async (_, { attempt }): Promise<Outcome | Hold> =>
        keepTrying('away', attempt < 1_100 ? 0 : 3_600_000, 7),
    })
    await harness.add(0, keyed(['a']))
    await log.members[0]!.gain([0])
    await eventually('many tries were made', () => lastSaved(log).attempts.get(0)?.count === 1_100)
    await first.close()
    const calls: number[][] = []
    await harness.startLanes({
      async handle(_, { attempt, retriesUsed }) {
        calls.push([attempt, retriesUsed])
        return done
      },
    })
    await log.members[1]!.gain([0])
    await eventually('it is committed', () => lastCommit(log).offset === 1)
    expect(calls).toEqual([[1_101, 7]])
  })

  test('counts no attempt while it only waits, takes no place among the retrying, and goes on when it is woken', async () => {
    const { log, harness } = await started()
    let open = false
    let asked = 0
    const attempts: number[] = []
    const wakeups = new LaneWakeups()
    await harness.startLanes({
      wakeups,
      async handle(_, { attempt }): Promise<Outcome | Hold> {
        asked++
        if (!open) return postpone('shut', 3_600_000, 0)
        attempts.push(attempt)
        return done
      },
    })
    const total = retryingLanesMax + 50
    await harness.add(0, keyed(Array.from({ length: total }, (_, n) => `lane-${n}`)))
    await log.members[0]!.gain([0])
    await eventually('all were asked', () => asked === total)
    wakeups.wake(0)
    await eventually('all were asked again', () => asked === 2 * total)
    open = true
    wakeups.wake(0)
    await eventually('all are committed', () => lastCommit(log).offset === total)
    expect(attempts).toHaveLength(total)
    expect(new Set(attempts)).toEqual(new Set([1]))
  })

  test('may wait over any number of kills where records are not blamed for them', async () => {
    for (const blamesRecords of [true, false]) {
      const { log, harness } = await started()
      await harness.add(0, keyed(['a']))
      await commitAs(log, harness, 0, { kills: killsMax + 1, isolated: 0, isolatedUntil: 100 })
      let calls = 0
      await harness.startLanes({
        callTimeoutMs: 20,
        blamesRecords,
        async handle() {
          calls++
          return done
        },
      })
      await log.members.at(-1)!.gain([0])
      await eventually('it is committed', () => lastCommit(log).offset === 1)
      expect(calls).toBe(blamesRecords ? 0 : 1)
      expect((await harness.deadLetters()).size).toBe(blamesRecords ? 1 : 0)
    }
  })
})

describe('a member that gains a partition', () => {
  test('shows its handler the records settled before, in order, and no second copies', async () => {
    const { log, harness } = await started()
    const options = {
      concurrency: 4,
      handle: async ({ key, offset }: { key: string; offset: number }): Promise<Outcome | Hold> =>
        key === 'held' ? keepTrying('away', 3_600_000, 1) : offset === 2 ? park('no') : done,
    }
    const first = await harness.startLanes(options)
    await harness.add(0, [
      { key: 'a', id: 'x' },
      { key: 'b' },
      { key: 'a' },
      { key: 'a', id: 'x' },
      { key: 'held' },
      { key: 'b' },
      { key: 'a' },
    ])
    await log.members[0]!.gain([0])
    await eventually('all but one are through', () => lastSaved(log).settled.size === 2)
    await first.close()
    const shown: string[] = []
    await harness.startLanes({
      ...options,
      onSettledBefore: ({ key, offset }) => shown.push(`${key}${offset}`),
      async handle({ key, offset }) {
        shown.push(`handle ${key}${offset}`)
        return done
      },
    })
    await log.members[1]!.gain([0])
    await eventually('all are committed', () => lastCommit(log).offset === 7)
    const before = shown.filter((one) => !one.startsWith('handle'))
    expect(before).toEqual(['a0', 'b1', 'a2', 'b5', 'a6'])
    expect(shown.indexOf('a2')).toBeLessThan(shown.indexOf('handle held4'))
  })

  test('begins with other lanes only when nothing is unsettled', async () => {
    const { log, harness } = await started()
    const moments: string[] = []
    const first = Promise.withResolvers<void>()
    await harness.startLanes({
      lane: ({ offset }) => `lane-${offset}`,
      keyIsLane(key, fresh) {
        moments.push(`${key} ${fresh}`)
        return true
      },
      async handle({ offset }) {
        if (offset === 0) await first.promise
        return done
      },
    })
    await harness.add(0, keyed(['a', 'a']))
    await log.members[0]!.gain([0])
    await eventually('both came', () => moments.length === 2)
    first.resolve()
    await eventually('both are committed', () => lastCommit(log).offset === 2)
    await harness.add(0, keyed(['b']))
    await eventually('the third is committed', () => lastCommit(log).offset === 3)
    expect(moments).toEqual(['a true', 'a false', 'b true'])
  })
})
