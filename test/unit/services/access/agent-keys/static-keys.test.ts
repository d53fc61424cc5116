/** Agent keys as the credential of a request: wrong ones are limited as trades are, right ones are not. */

import { pino } from 'pino'
import { afterEach, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { hashAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { openStaticKeys } from '#services/access/agent-keys/static-keys.ts'
import type { Caller } from '#services/access/callers/caller.ts'

const key = (n: number) => `svc_${n.toString(16).padStart(64, '0')}`
const refused = () => new AppError('unauthorized', 'The agent key is not valid.')

const open: { close(): Promise<void> }[] = []
afterEach(() => Promise.all(open.splice(0).map((one) => one.close())))

/** `valid`: the keys of an agent. `fault`: what the database answers. */
function keysOf(valid: Set<string>) {
  const world = { now: 1_000_000, asked: 0, remembers: true, fault: undefined as AppError | undefined }
  const uses: unknown[] = []
  const relational = { query: async (_sql: string, params: unknown[]) => uses.push(params) }
  const remembered = new Set<string>()
  const caller = { agentKeyId: 'ak_1', uid: 'uid-1' } as Caller
  const keys = openStaticKeys({
    relational: relational as unknown as Relational,
    log: pino({ level: 'silent' }),
    now: () => world.now,
    tokens: {
      keyHolder(keyHash) {
        if (remembered.has(keyHash) && world.remembers) return caller
        world.asked++
        return (async () => {
          if (world.fault) throw world.fault
          if (![...valid].some((one) => hashAgentKey(one) === keyHash)) throw refused()
          remembered.add(keyHash)
          return caller
        })()
      },
    },
  })
  open.push(keys)
  const send = async (one: string, address = '198.51.100.1') => {
    try {
      return (await keys.authenticate(`Bearer ${one}`, address)).uid
    } catch (error) {
      return (error as AppError).code
    }
  }
  return { world, keys, uses, send, remembered }
}

test('a right key is never limited, and its last use is noted', async () => {
  const { keys, send, uses, world } = keysOf(new Set([key(1)]))
  const together = await Promise.all(Array.from({ length: 20 }, () => send(key(1))))
  expect([new Set(together), world.asked]).toEqual([new Set(['uid-1']), 1])
  for (let n = 0; n < 50; n++)
    expect(keys.authenticate(`bearer ${key(1)}`, '198.51.100.1')).toMatchObject({ uid: 'uid-1' })
  // Also while each request has to ask the database.
  world.remembers = false
  for (let n = 0; n < 20; n++) expect(await send(key(1))).toBe('uid-1')
  await keys.close()
  expect(uses).toEqual([[['ak_1'], [expect.any(Date)]]])
})

test('a wrong key is refused after five tries, before the database is asked', async () => {
  const { send, world } = keysOf(new Set())
  for (let n = 0; n < 5; n++) expect(await send(key(2))).toBe('unauthorized')
  expect([await send(key(2)), await send(key(2), '198.51.100.2'), world.asked]).toEqual([
    'rate_limited',
    'rate_limited',
    5,
  ])
  world.now += 6_000
  expect(await send(key(2))).toBe('unauthorized')
})

test('a flood of wrong keys keeps neither others nor known keys of its address out', async () => {
  const { send } = keysOf(new Set([key(1), key(3)]))
  expect(await send(key(1))).toBe('uid-1')
  for (let n = 0; n < 100; n++) expect(await send(key(100 + n))).toBe('unauthorized')
  expect([await send(key(999)), await send(key(1)), await send(key(3), '198.51.100.9')]).toEqual([
    'rate_limited',
    'uid-1',
    'uid-1',
  ])
})

test('a fault of the database does not count as a wrong try; a revoked key counts', async () => {
  const valid = new Set([key(1)])
  const { send, world, remembered } = keysOf(valid)
  world.fault = new AppError('relational_engine_unavailable', 'away')
  for (let n = 0; n < 12; n++) expect(await send(key(1))).toBe('relational_engine_unavailable')
  world.fault = undefined
  expect(await send(key(1))).toBe('uid-1')
  valid.clear()
  remembered.clear()
  // The first is not counted: the key was right when it came last.
  for (let n = 0; n < 6; n++) expect(await send(key(1))).toBe('unauthorized')
  expect(await send(key(1))).toBe('rate_limited')
})

test('a malformed key is refused like an unknown one', async () => {
  const { send, world } = keysOf(new Set())
  const given = ['svc_', 'svc_123', `svc_${'A'.repeat(64)}`, `${key(1)}0`]
  expect([...new Set(await Promise.all(given.map((one) => send(one))))]).toEqual(['unauthorized'])
  expect(world.asked).toBe(0)
})
