/**
 * 5. Members
 *
 * Several processes with one group share its partitions. When one joins, another hands partitions over: it finishes its call,
 * commits, and only then the new owner begins. Nothing is handled by two at once.
 */

import { expect, test } from 'vitest'
import { done } from '#lib/outcome.ts'
import { eventually } from '#test/support/eventually.ts'
import { openWorld } from './world.ts'

test('a second member takes its share, and each record has one owner', async () => {
  const world = await openWorld()
  const seen: string[] = []
  const member = (name: string) =>
    world.startBatches({
      async handle(messages) {
        for (const { partition, offset } of messages) seen.push(`${name} ${partition}/${offset}`)
        return messages.map(() => done)
      },
    })
  const first = await member('first')
  await eventually('the first has both', () => first.state().partitions.length === 2)
  await world.add(0, [{}])
  await world.add(1, [{}])
  await world.committed(2)
  const second = await member('second')
  await eventually('each has one', () => [first, second].every((one) => one.state().partitions.length === 1))
  await world.add(0, [{}])
  await world.add(1, [{}])
  await world.committed(4)
  const names = seen.map((one) => one.split(' ')[0])
  expect(names.filter((name) => name === 'first')).toHaveLength(3)
  expect(names.filter((name) => name === 'second')).toHaveLength(1)
  expect(new Set(seen.map((one) => one.split(' ')[1])).size).toBe(4)
})
