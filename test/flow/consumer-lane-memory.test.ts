/** Lane mode with more waiting than memory may hold. */

import { expect, test } from 'vitest'
import { done } from '#lib/outcome.ts'
import { bookkeepingOf, EventIdRing } from '#runtime/consume/event-ids.ts'
import { createHarness } from '#test/support/consumer-harness.ts'
import { expectNothingPinned } from '#test/support/consumer-memory.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'
import { temporaryFolder } from '#test/support/temporary.ts'

const total = 6_000
const partitions = Array.from({ length: 64 }, (_, n) => n)

/** Works through a backlog of 12 MB where a partition may hold 1 MiB; how many records were delivered for it. */
async function delivered(options: { keyIsLane?: () => boolean; lanes: number }): Promise<number> {
  const log = createMemoryLog()
  const harness = await createHarness(log, { partitions: 64 })
  const seen = new Map<string, number>()
  let handled = 0
  await harness.startLanes({
    lane: ({ key }) => key,
    ...(options.keyIsLane ? { keyIsLane: options.keyIsLane } : {}),
    async handle({ key, offset }) {
      expect(seen.get(key) ?? -1).toBeLessThan(offset)
      seen.set(key, offset)
      handled++
      return done
    },
  })
  const text = 'x'.repeat(2_000)
  const entries = Array.from({ length: total }, (_, n) => ({ key: `k${n % options.lanes}`, value: { text } }))
  for (let n = 0; n < total; n += 500) await harness.add(0, entries.slice(n, n + 500))
  await log.members[0]!.gain(partitions)
  await eventually('all are committed', () => log.commits.some((one) => one.offset === total))
  expect(handled).toBe(total)
  return log.members[0]!.delivered
}

test('a backlog is read once, of one lane as of many', async () => {
  expect(await delivered({ keyIsLane: () => true, lanes: 1 })).toBe(total)
  expect(await delivered({ lanes: 1 })).toBe(total)
  expect(await delivered({ lanes: 20 })).toBe(total)
})

test('a record that waits keeps alive no record that was read with it', async () => {
  // 300 deliveries, each among 150 KB of other writes: as views of these they would keep 40 MB.
  const given = { mode: 'lanes', deliveries: 300, amongOthers: 300, buffersMbMax: 10 } as const
  await expectNothingPinned({ ...given, where: temporaryFolder() })
})

test('memory for event ids is counted for each owned partition, and given back with it', async () => {
  const log = createMemoryLog()
  const harness = await createHarness(log, { partitions: 64 })
  await harness.startLanes({ handle: async () => done })
  const memory = bookkeepingOf(log)
  await log.members[0]!.gain(partitions)
  const least = new EventIdRing().bytes
  await eventually('all are owned', () => memory.bytes === partitions.length * least)
  for (let n = 0; n < 3_000; n += 500) {
    await harness.add(
      0,
      Array.from({ length: 500 }, (_, one) => ({ key: `k${n + one}` })),
    )
  }
  await eventually('all are committed', () => log.commits.some((one) => one.offset === 3_000))
  expect(memory.bytes).toBe((partitions.length + 3) * least)
  await log.members[0]!.lose(partitions)
  await eventually('all is given back', () => memory.bytes === 0)
})
