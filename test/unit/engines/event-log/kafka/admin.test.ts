/** Administrative calls share a client while they come, and leave no connection open when there are none. */

import type { Kafka } from 'kafkajs'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createAdminCalls } from '../../../../../engines/event-log/kafka/admin.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

function open() {
  const events: string[] = []
  let clients = 0
  const kafka = {
    admin() {
      const name = `client ${++clients}`
      return {
        connect: async () => void events.push(`${name} connects`),
        describeCluster: async () => ({}),
        disconnect: async () => void events.push(`${name} disconnects`),
      }
    },
  } as unknown as Kafka
  return { events, calls: createAdminCalls(kafka) }
}

test('a client without calls is closed after a while, and another one opened for the next call', async () => {
  const { events, calls } = open()
  await calls.ask(async () => 1)
  await vi.advanceTimersByTimeAsync(1_000)
  await calls.ask(async () => 2)
  await vi.advanceTimersByTimeAsync(1_500)
  expect(events).toEqual(['client 1 connects'])
  await vi.advanceTimersByTimeAsync(1_000)
  expect(events).toEqual(['client 1 connects', 'client 1 disconnects'])
  expect(await calls.ask(async () => 3)).toBe(3)
  expect(events.at(-1)).toBe('client 2 connects')
  await calls.close()
})

test('a long call keeps its client, and a close ends it', async () => {
  const { events, calls } = open()
  const answer = Promise.withResolvers<string>()
  const asked = calls.ask(() => answer.promise, 60_000)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(events).toEqual(['client 1 connects'])
  answer.resolve('late')
  expect(await asked).toBe('late')
  await calls.close()
  await vi.advanceTimersByTimeAsync(0)
  expect(events).toEqual(['client 1 connects', 'client 1 disconnects'])
  expect(vi.getTimerCount()).toBe(0)
})
