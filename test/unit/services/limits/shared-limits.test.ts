import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { leaseFrom, newSharedAgent, utcDay } from '#services/limits/shared-agent.ts'
import type { LeaseAnswer, LeaseAsk } from '#services/limits/shared-limits.ts'
import { migrationFolders } from '#services/migrations.ts'
import { openEmptyRelational, silentLog } from '../../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
  await migrate(relational, silentLog, migrationFolders)
})
afterAll(() => relational.close())

const limits = { rate: 10, day: 60, slots: 3 }
const midnight = Date.UTC(2026, 0, 31)

async function leaseInDatabase(ask: LeaseAsk, atMs: number): Promise<LeaseAnswer> {
  const { rows } = await relational.query<{ answer: LeaseAnswer }>(
    'select platform.lease($1::jsonb, $2::float8) as answer',
    [JSON.stringify(ask), atMs],
  )
  return rows[0]!.answer
}

/** What an instance of the test holds, as it knows it. */
const newHolder = () => ({
  seq: 0,
  rate: 0,
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

test('the function of the database answers as the one in memory does, to any asks of any instances', async () => {
  let run = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
      run += 1
      let atMs = midnight - 3_000
      const memory = newSharedAgent(utcDay(atMs), 0)
      const holders = new Map<string, ReturnType<typeof newHolder>>()
      for (const { instance, pauseMs, began, wanted, giveBack, stale, busy } of steps) {
        atMs += pauseMs
        const own = holders.get(instance) ?? newHolder()
        holders.set(instance, own)
        const uses = Math.min(began, own.rate, own.leased - own.used)
        own.rate -= uses
        own.used += uses
        own.busy = Math.min(busy, own.slots)
        if (giveBack) {
          own.rate = 0
          own.leased = own.used
          own.slots = own.busy
        }
        own.seq += 1
        const ask: LeaseAsk = {
          key: `run-${run}`,
          instance,
          seq: stale ? own.seq - 1 : own.seq,
          limits,
          began_ago: Array.from({ length: uses }, (_, n) => n * 7.5),
          rate_held: own.rate,
          rate_wanted: wanted,
          day: own.day,
          day_leased: own.leased,
          day_used: own.used,
          day_wanted: wanted,
          busy: own.busy,
          slots_wanted: own.slots + (wanted % 3),
        }
        const answer = await leaseInDatabase(ask, atMs)
        expect(answer).toEqual(leaseFrom(memory, ask, atMs))
        if (answer.day_left_ms === 0) continue
        if (answer.day !== own.day) Object.assign(own, { day: answer.day, leased: 0, used: 0 })
        own.rate += answer.rate
        own.leased += answer.day_granted
        own.slots = answer.slots
      }
    }),
    { numRuns: 30 },
  )
})
