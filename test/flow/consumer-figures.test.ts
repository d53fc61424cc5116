/** Metrics of pending records: how many, how old the oldest is, and how many are settled beyond it. */

import { expect, test } from 'vitest'
import { done, type Hold, keepTrying, type Outcome, unavailable } from '#lib/outcome.ts'
import { createHarness, type Harness } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'

/** The figures of partition 0, as Prometheus gets them; undefined: the series is not there. */
async function figuresOf({ metrics, topic }: Harness) {
  const text = await metrics.metrics()
  const read = (name: string) => {
    const series = `flotilla_consumer_${name}{group="workers",topic="${topic.name}",partition="0"} `
    const line = text.split('\n').find((one) => one.startsWith(series))
    return line === undefined ? undefined : Number(line.slice(series.length))
  }
  return {
    lag: read('lag_records'),
    oldest: read('oldest_unread_seconds'),
    ahead: read('settled_ahead_records'),
  }
}

test('lanes: the head that waits has an age, and records settled behind it are counted apart', async () => {
  const log = createMemoryLog()
  const harness = await createHarness(log)
  let open = false
  const hold = (): Outcome | Hold => (open ? done : keepTrying('away', 5, 0))
  await harness.startLanes({ handle: async ({ key }) => (key === 'held' ? hold() : done) })
  await harness.add(0, [{ key: 'held' }, { key: 'a' }, { key: 'b' }, { key: 'held' }, { key: 'c' }])
  await log.members[0]!.gain([0])
  const waiting = await eventually('the others are settled', async () => {
    const figures = await figuresOf(harness)
    return figures.ahead === 3 ? figures : undefined
  })
  expect(waiting.lag).toBe(5)
  const { oldest = 0 } = waiting
  await eventually('it grows older', async () => ((await figuresOf(harness)).oldest ?? 0) > oldest)
  open = true
  await eventually('nothing waits', async () => (await figuresOf(harness)).lag === 0)
  expect(await figuresOf(harness)).toEqual({ lag: 0, oldest: 0, ahead: 0 })
})

test('batches: while the engine is away the first record has an age', async () => {
  const log = createMemoryLog()
  const harness = await createHarness(log)
  let away = true
  await harness.startBatches({
    probe: async () => {
      if (away) throw new Error('away')
    },
    handle: async (messages) => messages.map(() => (away ? unavailable('vectors', 'away') : done)),
  })
  await harness.add(0, [{ key: 'a' }, { key: 'b' }])
  await log.members[0]!.gain([0])
  const first = await eventually('an age', async () => (await figuresOf(harness)).oldest)
  await eventually('it grows older', async () => ((await figuresOf(harness)).oldest ?? 0) > first)
  away = false
  await eventually('nothing waits', async () => (await figuresOf(harness)).lag === 0, 60_000)
  expect(await figuresOf(harness)).toEqual({ lag: 0, oldest: 0, ahead: 0 })
})
