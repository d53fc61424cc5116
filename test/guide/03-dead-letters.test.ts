/**
 * 3. Dead letters
 *
 * A record that can never work is parked: it becomes a dead letter, with the reason and all its bytes, and the position moves on.
 * So does one that used up its retries, and one that cannot be decoded. Operators look at it, and replay or discard it.
 */

import { expect, test } from 'vitest'
import { done, park, retry, split } from '#lib/outcome.ts'
import { openWorld } from './world.ts'

const reasons = (letters: Map<string, Record<string, unknown>>) =>
  Object.fromEntries([...letters].map(([key, { reason }]) => [key, reason]))

test('a parked record is a dead letter, and the records behind it go on', async () => {
  const world = await openWorld()
  await world.add(0, [{ value: { n: 1 } }, { value: { n: 2 } }])
  await world.startBatches({
    handle: async (messages) =>
      messages.map(({ offset }) => (offset === 0 ? park('it names no agent') : done)),
  })
  await world.committed(2)
  // Named by its group, partition and offset.
  expect(reasons(await world.deadLetters())).toEqual({ 'workers/0/0': 'it names no agent' })
})

test('a record is parked after its last retry', async () => {
  const world = await openWorld()
  await world.add(0, [{}])
  let calls = 0
  await world.startBatches({
    retriesMax: 2,
    async handle(messages) {
      calls++
      return messages.map(() => retry('the model refuses'))
    },
  })
  await world.committed(1)
  expect(calls).toBe(3)
  expect(reasons(await world.deadLetters())).toEqual({ 'workers/0/0': 'the model refuses' })
})

test('bytes that are no message are parked without a call', async () => {
  const world = await openWorld()
  await world.add(0, [{ value: { poison: true } }, { value: { n: 2 } }])
  const seen: unknown[] = []
  await world.startBatches({
    async handle(messages) {
      seen.push(...messages.map(({ value }) => value))
      return messages.map(() => done)
    },
  })
  await world.committed(2)
  expect(seen).toEqual([{ n: 2 }])
  expect([...(await world.deadLetters()).keys()]).toEqual(['workers/0/0'])
})

test('a batch that an engine refuses as a whole is halved until the bad record is alone', async () => {
  const world = await openWorld()
  await world.add(
    0,
    Array.from({ length: 8 }, (_, n) => ({ value: { n } })),
  )
  await world.startBatches({
    async handle(messages) {
      const isRefused = messages.some(({ offset }) => offset === 5)
      return messages.map(() => (isRefused ? split('the index refuses the batch') : done))
    },
  })
  await world.committed(8)
  expect(reasons(await world.deadLetters())).toEqual({ 'workers/0/5': 'the index refuses the batch' })
})
