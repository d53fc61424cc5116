/** What ends an open stream, and what does not. */

import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Caller } from '#services/access/callers/caller.ts'
import { createWatches } from '#services/access/tokens/watches.ts'

const caller: Caller = {
  kind: 'agent',
  uid: 'agent_1',
  agentId: 'whale',
  agentKeyId: 'ak_1',
  name: 'whale',
  role: 'worker',
  access: 'member',
  tier: 'agent',
  quota: null,
  burst: null,
  concurrent: null,
}

let present: Caller | undefined
let away: boolean
const read = async () => {
  if (away) throw new Error('away')
  return present
}
const find = async () => {
  const found = await read()
  if (!found) throw new Error('unauthorized')
  return found
}
const open = () => createWatches({ now: () => Date.now(), find, read, log: pino({ level: 'silent' }) })

beforeEach(() => {
  vi.useFakeTimers()
  present = caller
  away = false
})
afterEach(() => vi.useRealTimers())

test('a change that takes nothing from the caller leaves the stream', async () => {
  const watches = open()
  const { signal } = watches.watch(caller)
  present = { ...caller, name: 'Another', burst: 7 }
  watches.changed('whale')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(signal.aborted).toBe(false)
  watches.close()
  expect(signal.aborted).toBe(true)
})

test.each<[string, { caller?: Caller | undefined; away?: true }]>([
  ['another access', { caller: { ...caller, access: 'admin' } }],
  ['its end', { caller: undefined }],
  ['a database that does not say', { caller, away: true }],
])('%s ends it', async (_what, change) => {
  const watches = open()
  const { signal } = watches.watch(caller)
  await vi.advanceTimersByTimeAsync(10)
  present = change.caller
  away = change.away ?? false
  watches.changed('another')
  await vi.advanceTimersByTimeAsync(10)
  expect(signal.aborted).toBe(false)
  watches.changed('whale')
  await vi.advanceTimersByTimeAsync(10)
  expect(signal.aborted).toBe(true)
})

test('what changed between the request and the watch, or was never heard of, ends it, too', async () => {
  present = undefined
  const { signal: late } = open().watch(caller)
  await vi.advanceTimersByTimeAsync(10)
  expect(late.aborted).toBe(true)
  present = caller
  const { signal: unheard } = open().watch(caller)
  await vi.advanceTimersByTimeAsync(10)
  present = undefined
  await vi.advanceTimersByTimeAsync(14_000)
  expect(unheard.aborted).toBe(false)
  await vi.advanceTimersByTimeAsync(1_100)
  expect(unheard.aborted).toBe(true)
})

test('it ends with the token, also with one that is far off', async () => {
  const watches = open()
  const at = (ms: number) => watches.watch({ ...caller, tokenExpiresAt: Date.now() + ms }).signal
  const soon = at(1_000)
  const over = at(-5)
  const far = at(2 ** 40)
  await vi.advanceTimersByTimeAsync(999)
  expect([soon.aborted, over.aborted, far.aborted]).toEqual([false, true, false])
  await vi.advanceTimersByTimeAsync(2)
  expect([soon.aborted, far.aborted]).toEqual([true, false])
})

test('behind a gateway key a change of the agent that leaves the key as it was ends nothing', async () => {
  const watches = open()
  const { agentKeyId: _, ...keyed } = { ...caller, gatewayKeyHash: 'aGFzaA==' }
  const { signal } = watches.watch(keyed)
  watches.changed('whale')
  await vi.advanceTimersByTimeAsync(20_000)
  expect(signal.aborted).toBe(false)
  present = undefined
  watches.changed('whale')
  await vi.advanceTimersByTimeAsync(0)
  expect(signal.aborted).toBe(true)
})

test('nothing runs while no stream is open', async () => {
  const watches = open()
  const one = watches.watch({ ...caller, tokenExpiresAt: Date.now() + 60_000 })
  expect(vi.getTimerCount()).toBe(2)
  one.close()
  one.close()
  expect(vi.getTimerCount()).toBe(0)
})
