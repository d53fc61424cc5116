/**
 * 2. Retries
 *
 * A failure that may pass is a `retry`: the record keeps its place, later records of the partition wait, and other
 * partitions go on. An engine that is away is `unavailable`: the whole group waits for it, and no attempt is counted.
 */

import { expect, test } from 'vitest'
import { done, retry, unavailable } from '#lib/outcome.ts'
import { openWorld } from './world.ts'

test('a retried record comes again before the records behind it', async () => {
  const world = await openWorld()
  await world.add(0, [{ value: { n: 1 } }, { value: { n: 2 } }])
  const seen: unknown[] = []
  let failures = 2
  await world.startBatches({
    batchRecordsMax: 1,
    async handle(messages, { attempt }) {
      seen.push([messages[0]!.offset, attempt])
      return messages.map(() => (failures-- > 0 ? retry('the disk was busy') : done))
    },
  })
  await world.committed(2)
  expect(seen).toEqual([
    [0, 1],
    [0, 2],
    [0, 3],
    [1, 1],
  ])
})

test('a handler that throws is a retry as well: nothing is lost by a bug', async () => {
  const world = await openWorld()
  await world.add(0, [{}])
  let calls = 0
  await world.startBatches({
    async handle(messages) {
      calls++
      if (calls === 1) throw new Error('a bug')
      return messages.map(() => done)
    },
  })
  await world.committed(1)
  expect(calls).toBe(2)
})

test('while an engine is away the group asks for it, and counts no attempt', async () => {
  const world = await openWorld()
  await world.add(0, [{}])
  let isAway = true
  let probes = 0
  const attempts: number[] = []
  await world.startBatches({
    retriesMax: 0,
    async handle(messages, { attempt }) {
      attempts.push(attempt)
      return messages.map(() => (isAway ? unavailable('index', 'connection refused') : done))
    },
    async probe() {
      probes++
      if (probes < 3) throw new Error('still away')
      isAway = false
    },
  })
  await world.committed(1)
  expect(probes).toBe(3)
  expect(attempts).toEqual([1, 1])
})
