/** Calls are repeated while the brokers do not answer, and end with a final answer. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createRepeatedCalls } from '#engines/event-log/kafka/calls.ts'
import { AppError } from '#lib/errors.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a call is repeated until it succeeds', async () => {
  let tries = 0
  const asked = createRepeatedCalls().ask(async () => {
    if (++tries < 4) throw new Error('no leader')
    return tries
  })
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await asked).toBe(4)
})

test('a refusal that is final is not repeated', async () => {
  let tries = 0
  const asked = createRepeatedCalls().ask(async () => {
    tries++
    throw new AppError('not_found', 'The topic things does not exist.')
  })
  await expect(asked).rejects.toMatchObject({ code: 'not_found' })
  expect(tries).toBe(1)
})

test('a call without an answer ends with its time, and leaves no timer', async () => {
  const asked = createRepeatedCalls().ask(() => new Promise(() => {}), 3_000)
  const refused = expect(asked).rejects.toMatchObject({ code: 'log_unavailable' })
  await vi.advanceTimersByTimeAsync(3_000)
  await refused
  expect(vi.getTimerCount()).toBe(0)
})

test('nothing is repeated after the close', async () => {
  const calls = createRepeatedCalls()
  let tries = 0
  const asked = calls.ask(async () => {
    tries++
    throw new Error('no leader')
  })
  const refused = expect(asked).rejects.toMatchObject({ code: 'log_unavailable' })
  await vi.advanceTimersByTimeAsync(50)
  calls.close()
  await vi.advanceTimersByTimeAsync(10_000)
  await refused
  expect(tries).toBe(1)
})
