/**
 * 4. Lanes
 *
 * Where the work is waiting, for example for somebody else's server, records run side by side: in order within a lane, which is
 * the record's key unless said otherwise, and without waiting for other lanes. A head that has to wait is held.
 */

import { expect, test } from 'vitest'
import { done, keepTrying } from '#lib/outcome.ts'
import { openWorld } from './world.ts'

test('a lane that waits does not hold up another one', async () => {
  const world = await openWorld()
  await world.add(0, [{ key: 'slow' }, { key: 'slow' }, { key: 'quick' }])
  const release = Promise.withResolvers<void>()
  const through: string[] = []
  await world.startLanes({
    async handle({ key, offset }) {
      if (key === 'slow') await release.promise
      through.push(`${key} ${offset}`)
      if (key === 'quick') release.resolve()
      return done
    },
  })
  await world.committed(3)
  expect(through).toEqual(['quick 2', 'slow 0', 'slow 1'])
})

test('a held head is tried again for as long as it takes, and never parked for it', async () => {
  const world = await openWorld()
  await world.add(0, [{ key: 'a' }])
  let calls = 0
  await world.startLanes({
    retriesMax: 1,
    async handle(_message, { retriesUsed }) {
      calls++
      return calls < 5 ? keepTrying('the target is away', 1, retriesUsed + 1) : done
    },
  })
  await world.committed(1)
  expect(calls).toBe(5)
  expect((await world.deadLetters()).size).toBe(0)
})
