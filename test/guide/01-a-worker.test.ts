/**
 * 1. A worker
 *
 * A worker reads a topic as a member of a group. It is a function from messages to outcomes, one for each message, in their
 * order. It never commits: the runtime does, once it has the outcomes.
 */

import { expect, test } from 'vitest'
import { done } from '#lib/outcome.ts'
import { openWorld } from './world.ts'

test('a handler gets batches of decoded messages, and answers an outcome for each', async () => {
  const world = await openWorld()
  await world.add(0, [{ value: { n: 1 } }, { value: { n: 2 } }])
  await world.add(1, [{ value: { n: 3 } }])
  const seen: unknown[] = []
  await world.startBatches({
    async handle(messages) {
      for (const { partition, offset, value } of messages) seen.push([partition, offset, value])
      return messages.map(() => done)
    },
  })
  await world.committed(3)
  expect(seen).toHaveLength(3)
  expect(seen).toEqual(
    expect.arrayContaining([
      [0, 0, { n: 1 }],
      [0, 1, { n: 2 }],
      [1, 0, { n: 3 }],
    ]),
  )
})

test('a worker that starts again goes on behind its last commit', async () => {
  const world = await openWorld()
  await world.add(0, [{ value: { n: 1 } }])
  const first = await world.startBatches({ handle: async (messages) => messages.map(() => done) })
  await world.committed(1)
  await first.close()
  await world.add(0, [{ value: { n: 2 } }])
  const seen: unknown[] = []
  await world.startBatches({
    async handle(messages) {
      seen.push(...messages.map(({ value }) => value))
      return messages.map(() => done)
    },
  })
  await world.committed(2)
  expect(seen).toEqual([{ n: 2 }])
})

test('a record that was published twice, under one event id, is handled once', async () => {
  const world = await openWorld()
  await world.add(0, [
    { id: 'one', value: { n: 1 } },
    { id: 'one', value: { n: 1 } },
    { id: 'two', value: { n: 2 } },
  ])
  const seen: unknown[] = []
  await world.startBatches({
    async handle(messages) {
      seen.push(...messages.map(({ value }) => value))
      return messages.map(() => done)
    },
  })
  await world.committed(3)
  expect(seen).toEqual([{ n: 1 }, { n: 2 }])
})
