/** Who did what: each action is a row and a record, within bounds and without secrets. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import {
  type AdminAction,
  listAdminActions,
  writeAdminAction,
} from '#services/access/admin-audit/admin-audit.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())

const operator = { kind: 'command_line', id: 'ada' } as const
const provisioned: AdminAction = {
  actor: operator,
  action: 'agent.provision',
  target: 'whale-1',
  outcome: 'done',
}

async function records(eventId: string) {
  const { rows } = await relational.query<{
    topic: string
    key: string
    value: Record<string, unknown>
    headers: Record<string, string>
  }>('select topic, key, value, headers from platform.outbox where event_id = $1', [eventId])
  return rows
}

const newest = async (filter: Partial<Parameters<typeof listAdminActions>[1]> = {}) =>
  (await listAdminActions(relational, { limit: 1, ...filter })).actions[0]!

test('an action is a row and the record that the outbox publishes', async () => {
  const before = { access: 'member', quota: null }
  const after = { access: 'admin', quota: 7 }
  const id = await writeAdminAction(relational, {
    ...provisioned,
    before,
    after,
    requestId: 'req-1',
    count: 2,
  })
  expect(await newest()).toMatchObject({
    id,
    actor: operator,
    action: 'agent.provision',
    target: 'whale-1',
    before,
    after,
    outcome: 'done',
    reason: null,
    request_id: 'req-1',
    count: 2,
  })
  const [record, ...others] = await records(id)
  expect(others).toEqual([])
  expect(record).toMatchObject({
    topic: 'admin.audit',
    key: 'ada',
    headers: { 'request-id': 'req-1' },
    value: { actor_kind: 'command_line', actor: 'ada', after: JSON.stringify(after), count: 2 },
  })
})

test('the row and the record go with the transaction of the change', async () => {
  const id = '00000000-0000-7000-8000-000000000001'
  const failing = relational.transaction(async (tx) => {
    await writeAdminAction(tx, { ...provisioned, id })
    throw new Error('the change failed')
  })
  await expect(failing).rejects.toThrow('the change failed')
  expect(await records(id)).toEqual([])
  expect((await newest()).id).not.toBe(id)
})

test('an action that was noted is not noted again', async () => {
  const id = await writeAdminAction(relational, { ...provisioned, target: 'once' })
  await writeAdminAction(relational, { ...provisioned, target: 'once', outcome: 'failed', id })
  expect(await records(id)).toHaveLength(1)
  const { actions } = await listAdminActions(relational, { limit: 10, target: 'once' })
  expect(actions.map(({ outcome }) => outcome)).toEqual(['done'])
})

test('secrets are cut out, wherever they are', async () => {
  const agentKey = `svc_${'a'.repeat(64)}`
  const gatewayKey = `vk_live_${'b'.repeat(43)}`
  const jwt = `eyJ${'h'.repeat(20)}.${'p'.repeat(20)}.${'s'.repeat(20)}`
  const id = await writeAdminAction(relational, {
    ...provisioned,
    target: `of ${agentKey}`,
    requestId: gatewayKey,
    after: {
      name: `x ${agentKey}`,
      password: 'hunter2-hunter2',
      private_key_pem: 'MC4CAQAw',
      refreshToken: 'abc',
      deep: [{ note: `${gatewayKey} ${jwt}` }],
      must_change_password: true,
      public_key_fingerprint: 'SHA256:abc',
    },
  })
  const row = await newest()
  const kept = JSON.stringify([row, await records(id)])
  for (const secret of [agentKey, gatewayKey, jwt, 'hunter2-hunter2', 'MC4CAQAw', '"abc"']) {
    expect(kept).not.toContain(secret)
  }
  expect(row.after).toMatchObject({
    must_change_password: true,
    public_key_fingerprint: 'SHA256:abc',
    name: 'x [cut]',
  })
})

test('hostile texts are stored, and long ones are cut', async () => {
  const target = `\0${'\uD800'}${'x'.repeat(10_000)}`
  await writeAdminAction(relational, {
    ...provisioned,
    target,
    before: { name: 'a\0b\uDFFF' },
    after: { name: 'y'.repeat(100_000) },
  })
  const row = await newest()
  expect(row.target).toHaveLength(256)
  expect(row.before).toEqual({ name: 'a\uFFFDb\uFFFD' })
  expect(row.after).toEqual({ cut: true, length: 100_011 })
  expect((await newest({ target })).id).toBe(row.id)
})

test('pages go from the newest to the oldest without a gap, also while actions are added', async () => {
  const actor = { kind: 'agent', id: 'agent_pages' } as const
  const write = (n: number) => writeAdminAction(relational, { ...provisioned, actor, target: `t${n}` })
  for (let n = 0; n < 5; n++) await write(n)
  const first = await listAdminActions(relational, { limit: 2, actor: actor.id })
  await write(5)
  const second = await listAdminActions(relational, { limit: 2, actor: actor.id, cursor: first.next! })
  const third = await listAdminActions(relational, { limit: 2, actor: actor.id, cursor: second.next! })
  expect([first, second, third].map((page) => page.actions.map(({ target }) => target))).toEqual([
    ['t4', 't3'],
    ['t2', 't1'],
    ['t0'],
  ])
  expect(third.next).toBeNull()
})

test('filters are compared literally', async () => {
  const actor = { kind: 'person', id: 'person_filters' } as const
  await writeAdminAction(relational, { ...provisioned, actor, action: 'key.issue', target: "x' OR 1=1" })
  await writeAdminAction(relational, { ...provisioned, actor, action: 'key.revoke', target: '%' })
  const found = async (filter: object) =>
    (await listAdminActions(relational, { limit: 10, actor: actor.id, ...filter })).actions.length
  expect(await found({})).toBe(2)
  expect(await found({ action: 'key.issue' })).toBe(1)
  expect(await found({ action: 'key.%' })).toBe(0)
  expect(await found({ target: "x' OR 1=1" })).toBe(1)
  expect(await found({ target: '%' })).toBe(1)
  expect(await found({ target: '' })).toBe(0)
})

test.each(['', 'a', 'x', '..', 'YTE=', `${Buffer.from('a1; drop').toString('base64url')}`, 'ÿ'.repeat(500)])(
  'a foreign cursor is refused: %j',
  async (cursor) => {
    await expect(listAdminActions(relational, { limit: 1, cursor })).rejects.toMatchObject({
      code: 'validation_failed',
    })
  },
)

test('rows older than a year are removed by later ones', async () => {
  const old = await writeAdminAction(relational, { ...provisioned, target: 'old' })
  await relational.query(
    `update platform.admin_actions set occurred_at = now() - interval '366 days' where id = $1`,
    [old],
  )
  await writeAdminAction(relational, provisioned)
  expect((await listAdminActions(relational, { limit: 10, target: 'old' })).actions).toEqual([])
})
