/** The notice that rows were written: soon, seldom, and never in the way. */

import { expect, test } from 'vitest'
import { createOutboxBell } from '#runtime/publish/wake-outbox.ts'
import { eventually } from '../../../support/eventually.ts'
import { silentLog } from '../../../support/relational.ts'

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
