/** Limits over restarts, and while the database is away. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { holderSilentMsMax } from '#services/access/limits/lease-rule.ts'
import { createLimitRows, createMemoryRows } from '#services/access/limits/limit-rows.ts'
import { createLimiter } from '#services/access/limits/limiter.ts'
import { migrationFolders } from '#services/migrations.ts'
import { agentCaller, tryBegin } from '../../../../support/limits-clock.ts'
import { openEmptyRelational, silentLog } from '../../../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
  await migrate(relational, silentLog, migrationFolders)
})
afterAll(() => relational.close())

// Noon of a day: no run of this file crosses midnight.
const noon = Date.UTC(2026, 0, 31, 12)
let starts = 0
type Open = (database?: Pick<Relational, 'query'>, atMs?: number) => ReturnType<typeof createLimiter>
const opening =
  (createRows: typeof createLimitRows): Open =>
  (database = relational, atMs = noon) =>
    createLimiter({ shared: createRows(database, () => atMs), instance: `start-${++starts}` })

async function begin(limiter: ReturnType<Open>, uid: string, times: number, quota = 1_000) {
  for (let n = 0; n < times; n++) {
    const outcome = await tryBegin(limiter, { ...agentCaller, uid, tier: 'research-agent', quota })
    expect(outcome).toMatchObject({ ok: true })
    if (outcome.ok) outcome.end()
  }
}
const used = (limiter: ReturnType<Open>, uid: string) =>
  limiter.usedToday({ ...agentCaller, uid, tier: 'research-agent', quota: 1_000 })

describe.each([
  ['shared', createLimitRows],
  ['memory', createMemoryRows],
] as const)('rows of the kind %s', (kind, createRows) => {
  const open = opening(createRows)

  test("a restart knows the day's use exactly, a kill counts at most a hundredth too many", async () => {
    const first = open()
    await begin(first, `${kind}-kept`, 37)
    expect(await used(first, `${kind}-kept`)).toBe(37)
    await first.close()
    const second = open()
    expect(await used(second, `${kind}-kept`)).toBe(37)
    await begin(second, `${kind}-kept`, 5)
    // Killed: it never closes, and is known to be dead when it was silent for long.
    const third = open(relational, noon + holderSilentMsMax + 1)
    expect(await used(third, `${kind}-kept`)).toBeGreaterThanOrEqual(42)
    expect(await used(third, `${kind}-kept`)).toBeLessThanOrEqual(42 + 10)
    await third.close()
  })

  test('the quota holds over restarts', async () => {
    for (let start = 0; start < 5; start++) {
      const limiter = open()
      await begin(limiter, `${kind}-few`, 2, 10)
      await limiter.close()
    }
    const limiter = open()
    expect(await tryBegin(limiter, { ...agentCaller, uid: `${kind}-few`, quota: 10 })).toMatchObject({
      code: 'quota_exceeded',
    })
    await limiter.close()
  })

  test('while the database is away, the lease is spent, then it is 503', async () => {
    let away = false
    const breakable: Pick<Relational, 'query'> = {
      query: (text, params) =>
        away
          ? Promise.reject(new AppError('relational_engine_unavailable', 'away'))
          : relational.query(text, params),
    }
    const limiter = open(breakable)
    const caller = { ...agentCaller, uid: `${kind}-away`, tier: 'research-agent', quota: 1_000 } as const
    await begin(limiter, `${kind}-away`, 1)
    away = true
    let spent = 0
    let outcome = await tryBegin(limiter, caller)
    for (; outcome.ok; outcome = await tryBegin(limiter, caller)) {
      outcome.end()
      spent += 1
    }
    expect(outcome).toMatchObject({ code: 'relational_engine_unavailable' })
    // One or two hundredths, by whether the next one was fetched already.
    expect(spent).toBeGreaterThanOrEqual(9)
    expect(spent).toBeLessThanOrEqual(19)
    away = false
    await limiter.close()
    const again = open()
    expect(await used(again, `${kind}-away`)).toBe(1 + spent)
    await again.close()
  })
})
