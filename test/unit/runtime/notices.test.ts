/** Notices of changes in the database. */

import { expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { createOutboxBell, hearNotices, noticeOn } from '#runtime/notices.ts'
import { eventually } from '#test/support/eventually.ts'
import { openEmptyRelational, silentLog } from '#test/support/relational.ts'

test('a notice comes when its transaction commits, and none when it is rolled back', async () => {
  const relational = await openEmptyRelational()
  onTestFinished(() => relational.close())
  let heard = 0
  const notices = hearNotices({ relational, log: silentLog }, 'flotilla_outbox', () => {
    heard++
  })
  await eventually('it listens', () => heard === 1)
  const notify = `select ${noticeOn('flotilla_outbox')}`
  await relational.query(`select ${noticeOn('flotilla_stuck_records')}`)
  await expect(
    relational.transaction(async (tx) => {
      await tx.query(notify)
      throw new Error('rolled back')
    }),
  ).rejects.toThrow('rolled back')
  await relational.transaction(async (tx) => void (await tx.query(notify)))
  await eventually('it is heard', () => heard === 2)
  await notices.close()
  await relational.query(notify)
  await relational.query('select 1')
  expect(heard).toBe(2)
})

test('listening is retried while the database is away; missed notices are looked up afterwards', async () => {
  let tries = 0
  let heard = 0
  const listen = async () => {
    if (++tries < 3) throw new AppError('relational_engine_unavailable', 'away')
    return async () => {}
  }
  const notices = hearNotices({ relational: { listen }, log: silentLog }, 'flotilla_outbox', () => {
    heard++
  })
  await eventually('it listens', () => heard === 1)
  expect(tries).toBe(3)
  await notices.close()
})

function openBell({ failing = false } = {}) {
  const state = { sent: 0, failing }
  const bell = createOutboxBell({
    log: silentLog,
    relational: {
      async query<Row>() {
        state.sent += 1
        if (state.failing) throw new Error('away')
        return { rows: [] as Row[], rowCount: 0 }
      },
    },
  })
  return { bell, state }
}

test('the first is sent at once, and many become a few', async () => {
  const { bell, state } = openBell()
  for (let n = 0; n < 100; n++) bell.ring()
  expect(state.sent).toBe(1)
  const until = performance.now() + 100
  while (performance.now() < until) {
    bell.ring()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await bell.close()
  expect(state.sent).toBeGreaterThan(2)
  expect(state.sent).toBeLessThanOrEqual(14)
})

test('a database that is away stops nothing', async () => {
  const { bell, state } = openBell({ failing: true })
  bell.ring()
  await eventually('the first', async () => state.sent === 1 || undefined)
  state.failing = false
  bell.ring()
  await eventually('the second', () => state.sent === 2)
  await bell.close()
})
