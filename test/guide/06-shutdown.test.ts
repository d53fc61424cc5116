/**
 * 6. Shutdown
 *
 * `close` stops fetching, waits for the calls in flight (two seconds, then their signals abort), commits, and leaves the group.
 * A process that is killed instead repeats what it had not committed, and nothing else.
 */

import { expect, test } from 'vitest'
import { done } from '#lib/outcome.ts'
import { openWorld } from './world.ts'

test('a call in flight is finished and committed', async () => {
  const world = await openWorld()
  await world.add(0, [{}])
  const begun = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const consumer = await world.startBatches({
    async handle(messages) {
      begun.resolve()
      await release.promise
      return messages.map(() => done)
    },
  })
  await begun.promise
  const closing = consumer.close()
  release.resolve()
  await closing
  await world.committed(1)
})

test('one that takes too long is asked to stop, and its record is there for the next member', async () => {
  const world = await openWorld()
  await world.add(0, [{ value: { n: 1 } }])
  const begun = Promise.withResolvers<void>()
  let hasHeard = false
  const stuck = await world.startBatches({
    callTimeoutMs: 60_000,
    async handle(_messages, { signal }) {
      begun.resolve()
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
      hasHeard = true
      // Work that was broken off has no outcome.
      throw signal.reason
    },
  })
  await begun.promise
  await stuck.close()
  expect(hasHeard).toBe(true)
  const seen: unknown[] = []
  await world.startBatches({
    async handle(messages) {
      seen.push(...messages.map(({ value }) => value))
      return messages.map(() => done)
    },
  })
  await world.committed(1)
  expect(seen).toEqual([{ n: 1 }])
})
