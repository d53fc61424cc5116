/** Refused sign-ins: one line a minute for an account or address, with a count, in bounded memory. */

import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { openRefusedSignIns } from '#services/access/people/refused-sign-ins.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.admin_actions'))

const log = pino({ level: 'silent' })
const refused = { uid: null, address: '192.0.2.1', reason: 'unauthorized', requestId: 'r' }

function open() {
  let nowMs = 0
  const refusals = openRefusedSignIns({ relational, log }, () => nowMs)
  onTestFinished(() => refusals.close())
  return {
    refusals,
    pass(ms: number) {
      nowMs += ms
    },
  }
}

async function lines() {
  const { rows } = await relational.query(
    'select actor_id, action, target, reason, outcome, count from platform.admin_actions order by seq',
  )
  return rows
}

test('the first is written at once, those of the next minute together', async () => {
  const { refusals, pass } = open()
  refusals.note(refused)
  await refusals.flush()
  for (let n = 0; n < 499; n++) refusals.note(refused)
  pass(59_000)
  await refusals.flush()
  expect(await lines()).toEqual([
    {
      actor_id: 'unknown',
      action: 'person.sign_in',
      target: '192.0.2.1',
      reason: 'unauthorized',
      outcome: 'refused',
      count: 1,
    },
  ])
  pass(1_000)
  await refusals.flush()
  expect((await lines()).map(({ count }) => count)).toEqual([1, 499])
  pass(60_000)
  await refusals.flush()
  expect(await lines()).toHaveLength(2)
})

test('accounts are counted by themselves, addresses of unknown ones by network', async () => {
  const { refusals } = open()
  const uid = `person_${'0'.repeat(26)}`
  refusals.note({ ...refused, uid })
  refusals.note({ ...refused, uid, address: '192.0.2.2' })
  refusals.note({ ...refused, address: '2001:db8::1' })
  refusals.note({ ...refused, address: '2001:db8::2' })
  await refusals.flush()
  expect((await lines()).map(({ actor_id, target, count }) => [actor_id, target, count])).toEqual([
    [uid, '192.0.2.2', 2],
    ['unknown', '2001:db8:0:0::/64', 2],
  ])
})

test('a flood of addresses is counted together beyond a bound, and nothing is lost at the end', async () => {
  const { refusals } = open()
  for (let n = 0; n < 5_000; n++) refusals.note({ ...refused, address: `10.0.${n >> 8}.${n & 255}` })
  await refusals.flush()
  await refusals.close()
  const all = await lines()
  expect(all.length).toBeLessThanOrEqual(200)
  expect(all.reduce((sum, { count }) => sum + (count as number), 0)).toBe(5_000)
})
