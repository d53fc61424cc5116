/** Leases: one holder at a time, by the clock of the database. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { acquireLease, leaseLeftMs, releaseLease, withLease } from '#runtime/leases.ts'
import { migrationFolders } from '#services/migrations.ts'
import { eventually } from '../../support/eventually.ts'
import { openEmptyRelational, silentLog } from '../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
  await migrate(relational, silentLog, migrationFolders)
})
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.leases'))

const minute = 60_000
const acquire = (holder: string, ttlMs = minute) => acquireLease(relational, 'job', holder, ttlMs)
const runOut = () => relational.query(`update platform.leases set expires_at = now() - interval '1 second'`)

test('one holder at a time', async () => {
  expect(await acquire('a')).toMatchObject({ holder: 'a', epoch: 1 })
  expect(await acquire('b')).toBeNull()
})

test('of many that ask at the same time, one gets it', async () => {
  const leases = await Promise.all(Array.from({ length: 20 }, (_, n) => acquire(`h${n}`)))
  expect(leases.filter(Boolean)).toHaveLength(1)
})

test('one that expired goes to the next, under a higher epoch', async () => {
  await acquire('a')
  await runOut()
  expect(await acquire('b')).toMatchObject({ holder: 'b', epoch: 2 })
  expect(await acquire('a')).toBeNull()
})

test('the same holder keeps its epoch, also when it comes late', async () => {
  await acquire('a')
  await runOut()
  expect(await acquire('a')).toMatchObject({ epoch: 1 })
})

test('one that is given back is free at once, and the epoch goes on rising', async () => {
  const lease = (await acquire('a'))!
  await releaseLease(relational, lease)
  expect(await acquire('b')).toMatchObject({ epoch: 2 })
})

test('a holder that lost it cannot give it back', async () => {
  const lost = (await acquire('a'))!
  await runOut()
  await acquire('b')
  await releaseLease(relational, lost)
  expect(await acquire('c')).toBeNull()
})

test('a renewal counts from now', async () => {
  const lease = (await acquire('a', 20_000))!
  expect(leaseLeftMs(lease)).toBeLessThanOrEqual(20_000)
  const renewed = (await acquire('a'))!
  expect(renewed.epoch).toBe(lease.epoch)
  expect(leaseLeftMs(renewed)).toBeGreaterThan(30_000)
})

test('different leases have nothing to do with each other', async () => {
  await acquire('a')
  expect(await acquireLease(relational, 'other', 'b', minute)).not.toBeNull()
})

test('work runs under the lease, for longer than its time, and gives it back', async () => {
  const options = { name: 'job', holder: 'a', ttlMs: 3_000 }
  const value = await withLease(relational, options, async (lease) => {
    await new Promise((resolve) => setTimeout(resolve, 3_500))
    expect(lease.signal.aborted).toBe(false)
    expect(await acquire('b')).toBeNull()
    return lease.epoch
  })
  expect(value).toBe(1)
  expect(await acquire('b')).not.toBeNull()
})

test('work does not run while another holds it', async () => {
  await acquire('b')
  let ran = false
  expect(
    await withLease(relational, { name: 'job', holder: 'a', ttlMs: 300 }, async () => {
      ran = true
    }),
  ).toBeUndefined()
  expect(ran).toBe(false)
})

test('work is notified when the lease is lost', async () => {
  await withLease(relational, { name: 'job', holder: 'a', ttlMs: 150 }, async (lease) => {
    await relational.query(`update platform.leases set holder = 'b', epoch = epoch + 1`)
    await eventually('the signal is aborted', () => lease.signal.aborted)
  })
})

test('work is notified when the lease was lost for a while, and nothing is kept of the new one', async () => {
  await withLease(relational, { name: 'job', holder: 'a', ttlMs: 150 }, async (lease) => {
    await relational.query(`update platform.leases set holder = 'b', epoch = epoch + 1, expires_at = now()`)
    await eventually('the signal is aborted', () => lease.signal.aborted)
  })
  expect(await acquire('c')).not.toBeNull()
})

test('work is notified when the time of the lease is over, also while a renewal gets no answer', async () => {
  const answer = Promise.withResolvers<void>()
  let queries = 0
  const silent: Relational = {
    ...relational,
    async query(text, values) {
      if (queries++ > 0) await answer.promise
      return relational.query(text, values)
    },
  }
  await withLease(silent, { name: 'job', holder: 'a', ttlMs: 300 }, async (lease) => {
    await eventually('the signal is aborted', () => lease.signal.aborted)
    expect(lease.leftMs()).toBe(0)
    answer.resolve()
  })
})

test('it is given back when work fails', async () => {
  const failing = withLease(relational, { name: 'job', holder: 'a', ttlMs: minute }, async () => {
    throw new Error('work failed')
  })
  await expect(failing).rejects.toThrow('work failed')
  expect(await acquire('b')).not.toBeNull()
})
