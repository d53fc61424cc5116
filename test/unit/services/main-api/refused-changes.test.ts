/** Changes that a role does not allow: the first is noted at once, a flood of them once a minute with its number. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import { listAdminActions } from '#services/access/admin-audit/admin-audit.ts'
import { openRefusedChanges } from '#services/main-api/refused-changes.ts'
import { openControlPlane } from '../../../support/control-plane.ts'
import { eventually } from '../../../support/eventually.ts'
import { silentLog } from '../../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())

const noted = async (actor: string) =>
  (await listAdminActions(relational, { limit: 100, actor })).actions.map(({ target, count }) => [
    target,
    count,
  ])
const refusal = (id: string, route: string) => ({
  actor: { kind: 'agent' as const, id },
  route,
  requestId: 'r',
})

test('the first is noted at once, and those that follow as one line', async () => {
  const refusals = openRefusedChanges({ relational, log: silentLog }, 300)
  for (let n = 0; n < 501; n++) refusals.note(refusal('flood', 'POST /a'))
  refusals.note(refusal('flood', 'POST /b'))
  await eventually('the rest is noted', async () => (await noted('flood')).length === 3)
  expect(await noted('flood')).toEqual([
    ['POST /a', 500],
    ['POST /b', 1],
    ['POST /a', 1],
  ])
  // Nothing more is written for those that are quiet.
  await sleep(700)
  expect(await noted('flood')).toHaveLength(3)
  await refusals.close()
})

test('a close writes the pending lines', async () => {
  const refusals = openRefusedChanges({ relational, log: silentLog })
  for (let n = 0; n < 4; n++) refusals.note(refusal('closing', 'POST /a'))
  await refusals.close()
  expect(await noted('closing')).toEqual([
    ['POST /a', 3],
    ['POST /a', 1],
  ])
})

test('the number of callers is bounded', async () => {
  let lines = 0
  const transaction = async () => {
    lines += 1
    return undefined as never
  }
  const refusals = openRefusedChanges({ relational: { ...relational, transaction }, log: silentLog })
  for (let n = 0; n < 5_000; n++) refusals.note(refusal(`a${n}`, 'POST /a'))
  await refusals.close()
  expect(lines).toBe(1_000)
})
