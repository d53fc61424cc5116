/** The rows that instances share about limits: many asks at once lose nothing and grant nothing twice. */

import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { SqlFault } from '#engines/relational/sql-faults.ts'
import { type LeaseAsk, leaseFrom, newLimitRow, utcDay } from '#services/access/limits/lease-rule.ts'
import { createLimitRows } from '#services/access/limits/limit-rows.ts'
import { migrationFolders } from '#services/migrations.ts'
import { propertyRuns } from '../../../../support/property-runs.ts'
import { openEmptyRelational, silentLog } from '../../../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
  await migrate(relational, silentLog, migrationFolders)
})
afterAll(() => relational.close())

const limits = { rate: 10, day: 60, slots: 3 }
const midnight = Date.UTC(2026, 0, 31)

/** What an instance of the test holds, as it knows it. */
const newHolder = () => ({
  seq: 0,
  held: 0,
  day: null as string | null,
  leased: 0,
  used: 0,
  slots: 0,
  busy: 0,
})

const step = fc.record({
  instance: fc.constantFrom('a', 'b', 'c'),
  pauseMs: fc.constantFrom(0, 1, 40, 300, 801, 1_000, 2_001, 11_000),
  began: fc.nat(5),
  wanted: fc.nat(6),
  giveBack: fc.boolean(),
  stale: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  busy: fc.nat(3),
})

/** A later ask of the instance was answered: nothing is granted. */
function isStale(error: unknown): undefined {
  expect(error).toMatchObject({ message: 'a later ask was answered' })
}

test('a row that is written and read back answers as one that stays in memory, to any asks of any instances', async () => {
  let run = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
      run += 1
      let atMs = midnight - 3_000
      const memory = newLimitRow(utcDay(atMs))
      const rows = createLimitRows(relational, () => atMs)
      const holders = new Map<string, ReturnType<typeof newHolder>>()
      for (const { instance, pauseMs, began, wanted, giveBack, stale, busy } of steps) {
        atMs += pauseMs
        const own = holders.get(instance) ?? newHolder()
        holders.set(instance, own)
        const uses = Math.min(began, own.held)
        own.held -= uses
        own.used += uses
        own.busy = Math.min(busy, own.slots)
        if (giveBack) {
          own.held = 0
          own.leased = own.used
          own.slots = own.busy
        }
        own.seq += 1
        const ask: LeaseAsk = {
          key: `run-${run}`,
          instance,
          seq: stale ? own.seq - 1 : own.seq,
          limits,
          beganAgoMs: Array.from({ length: uses }, (_, n) => n * 7.5),
          held: own.held,
          wanted,
          day: own.day,
          dayLeased: own.leased,
          dayUsed: own.used,
          busy: own.busy,
          slotsWanted: own.slots + (wanted % 3),
        }
        const answer = await rows.lease(ask).catch(isStale)
        const inMemory = async () => leaseFrom(memory, ask, atMs)
        expect(answer).toEqual(await inMemory().catch(isStale))
        if (!answer) continue
        if (answer.day !== own.day) Object.assign(own, { day: answer.day, used: 0 })
        own.held += answer.granted
        own.leased = answer.dayLeased
        own.slots = answer.slots
      }
    }),
    { numRuns: propertyRuns(30) },
  )
})

const askOf = (key: string, instance: string): LeaseAsk => ({
  ...{ key, instance, seq: 1, limits },
  ...{ beganAgoMs: [], held: 0, wanted: 1, day: null, dayLeased: 0, dayUsed: 0 },
  ...{ busy: 0, slotsWanted: 1 },
})

test('asks that meet at one row are answered one after the other: none is lost, none is granted twice', async () => {
  const rows = createLimitRows(relational, () => midnight + 43_200_000)
  const instances = Array.from({ length: 9 }, (_, n) => `gateway-${n}`)
  const answers = await Promise.all(instances.map((instance) => rows.lease(askOf('raced', instance))))
  expect(answers.reduce((sum, { granted }) => sum + granted, 0)).toBe(9)
  expect(answers.reduce((sum, { slots }) => sum + slots, 0)).toBe(limits.slots)
  const { rows: stored } = await relational.query(
    `select leased, (select count(*) from jsonb_object_keys(l.holders)) as holders
     from platform.limit_days d join platform.limit_leases l using (key) where key = 'raced'`,
  )
  expect(stored).toEqual([{ leased: 9, holders: 9 }])
  expect(await rows.usedToday('raced')).toBe(0)
})

test('a gateway of the release before, which asks by a function of the database, shares the rows', async () => {
  const earlier = (instance: string, seq: number) =>
    relational.query<{ answer: { rate: number; slots: number } }>(
      'select platform.lease($1::jsonb) as answer',
      [
        JSON.stringify({
          ...{ key: 'mixed', instance, seq, limits, began_ago: [], rate_held: 0, rate_wanted: 1 },
          ...{ day: null, day_leased: 0, day_used: 0, day_wanted: 1, busy: 0, slots_wanted: 1 },
        }),
      ],
    )
  const rows = createLimitRows(relational)
  const asks = Array.from({ length: 4 }, (_, n) => [
    rows.lease(askOf('mixed', `new-${n}`)),
    earlier(`old-${n}`, 1).then(({ rows: [row] }) => row!.answer),
  ])
  const answers = await Promise.all(asks.flat())
  expect(answers.reduce((sum, { slots }) => sum + slots, 0)).toBe(limits.slots)
  const { rows: stored } = await relational.query(
    "select (select count(*) from jsonb_object_keys(holders)) as holders from platform.limit_leases where key = 'mixed'",
  )
  expect(stored).toEqual([{ holders: 8 }])
})

test("after a crash of the server, which empties the leases, the day's use is still known", async () => {
  const rows = createLimitRows(relational)
  const before = await rows.lease(askOf('crashed', 'a'))
  await relational.query("delete from platform.limit_leases where key = 'crashed'")
  const ask = { ...askOf('crashed', 'b'), limits: { ...limits, rate: null }, wanted: limits.day }
  expect((await rows.lease(ask)).granted).toBe(limits.day - before.dayLeased)
})

const faultOver = (state: string) =>
  createLimitRows({ query: () => Promise.reject(new SqlFault(state, 'somebody was in the way')) })
    .lease(askOf('faulty', 'a'))
    .catch((error: unknown) => error)

test.each(['40P01', '40001', '55P03', '57014', '53200'])(
  'an ask that meets a fault that passes (SQLSTATE %s) is to be repeated',
  async (state) => {
    expect(await faultOver(state)).toMatchObject({ code: 'relational_engine_unavailable', retryAfter: 1 })
  },
)

test('any other fault is shown as it is', async () => {
  expect(await faultOver('42883')).toBeInstanceOf(SqlFault)
})
