/** The vault on a real database: issued once, found by hash, revoked, gone with the agent. */

import pino from 'pino'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import {
  hashAgentKey,
  issueAgentKey,
  listAgentKeys,
  revokeAgentKey,
} from '#services/access/agent-keys/agent-keys.ts'
import { createKeyHolders, createLastUse } from '#services/access/agent-keys/trades.ts'
import { deleteAgent, provisionAgent } from '#services/access/agents/agents.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
  await provisionAgent(relational, { agentId: 'Whale', access: 'viewer' })
})
afterAll(() => relational?.close())

const holderOf = (key: string) => createKeyHolders(relational).find(hashAgentKey(key))

test('an issued key has the shape of the specification, and its agent is found by its hash', async () => {
  const { record, key } = await issueAgentKey(relational, { agentId: 'whale', label: 'laptop' })
  expect(key).toMatch(/^svc_[0-9a-f]{64}$/)
  expect(record).toEqual({
    id: expect.stringMatching(/^ak_[0-9a-z]{26}$/),
    agent_id: 'Whale',
    label: 'laptop',
    created_at: expect.any(Date),
    last_used_at: null,
    revoked_at: null,
  })
  expect(await holderOf(key)).toMatchObject({
    kind: 'agent',
    agentKeyId: record.id,
    uid: expect.stringMatching(/^agent_/),
    agentId: 'Whale',
    name: 'Whale',
    access: 'viewer',
  })
  expect(await holderOf(`svc_${'0'.repeat(64)}`)).toBeUndefined()
})

test('revoking ends one key, says so to every instance once, and ends what it bought', async () => {
  const kept = await issueAgentKey(relational, { agentId: 'Whale' })
  const { record, key } = await issueAgentKey(relational, { agentId: 'Whale' })
  const { uid } = (await holderOf(key))!
  for (const id of [record.id, kept.record.id]) {
    await relational.query(
      `insert into platform.refresh_tokens (hash, uid, claims, lifetime_s, auth_time, expires_at)
       values ($1, $2, $3::jsonb, 1, now(), now() + interval '1 day')`,
      [Buffer.from(id), uid, JSON.stringify({ agent_key: id })],
    )
  }
  const { outboxId, record: revoked } = await revokeAgentKey(relational, record.id)
  expect(revoked.revoked_at).toBeInstanceOf(Date)
  expect(await holderOf(key)).toBeUndefined()
  expect(await holderOf(kept.key)).toBeDefined()
  const { rows } = await relational.query<{ value: object }>(
    'select value from platform.outbox where id = $1',
    [outboxId],
  )
  expect(rows[0]!.value).toMatchObject({ change: 'agent_key_revoked', agent_key_id: record.id, uid })
  const left = await relational.query('select 1 from platform.refresh_tokens where uid = $1', [uid])
  expect(left.rowCount).toBe(1)
  expect((await revokeAgentKey(relational, record.id)).outboxId).toBeNull()
  for (const id of ['ak_none', "x' OR 1=1", 'ak_01jd3w7x5m8qk2v9r4t6y0z1ab']) {
    await expect(revokeAgentKey(relational, id)).rejects.toMatchObject({ code: 'not_found' })
  }
})

test('the list is the newest first, of all or of one agent, and shows no key', async () => {
  await provisionAgent(relational, { agentId: 'pulse' })
  const { key, record } = await issueAgentKey(relational, { agentId: 'pulse', label: 'a' })
  const all = await listAgentKeys(relational)
  expect(all[0]!.id).toBe(record.id)
  expect(all.length).toBeGreaterThan(1)
  const own = await listAgentKeys(relational, 'PULSE')
  expect(own.map(({ id }) => id)).toEqual([record.id])
  expect(JSON.stringify(all)).not.toContain(key.slice(4, 20))
  await expect(listAgentKeys(relational, 'nobody')).rejects.toMatchObject({ code: 'not_found' })
})

test('an agent has a bounded number of live keys; faulty labels and unknown agents are refused', async () => {
  await provisionAgent(relational, { agentId: 'many' })
  const made = []
  for (let n = 0; n < 100; n++) made.push(await issueAgentKey(relational, { agentId: 'many' }))
  await expect(issueAgentKey(relational, { agentId: 'many' })).rejects.toMatchObject({ code: 'conflict' })
  await revokeAgentKey(relational, made[0]!.record.id)
  await issueAgentKey(relational, { agentId: 'many' })
  for (const label of ['x'.repeat(65), 'a\0', '\ud800']) {
    await expect(issueAgentKey(relational, { agentId: 'pulse', label })).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ path: '/label', message: 'must have at most 64 characters' }],
    })
  }
  await expect(issueAgentKey(relational, { agentId: 'nobody' })).rejects.toMatchObject({ code: 'not_found' })
})

test('keys go with their agent', async () => {
  await provisionAgent(relational, { agentId: 'leaving' })
  const { key } = await issueAgentKey(relational, { agentId: 'leaving' })
  await deleteAgent(relational, 'leaving')
  expect(await holderOf(key)).toBeUndefined()
})

test('last uses are written together, each key once a minute, and never back in time', async () => {
  await provisionAgent(relational, { agentId: 'used' })
  const ids = [
    (await issueAgentKey(relational, { agentId: 'used' })).record.id,
    (await issueAgentKey(relational, { agentId: 'used' })).record.id,
  ]
  let now = Date.UTC(2026, 0, 1)
  const asked = vi.fn()
  const query: Relational['query'] = (text, params) => {
    asked()
    return relational.query(text, params)
  }
  const log = pino({ level: 'silent' })
  const lastUse = createLastUse({ relational: { ...relational, query }, log, now: () => now })
  const uses = async () =>
    (
      await relational.query<{ last_used_at: Date | null }>(
        'select last_used_at from platform.agent_keys where id = any($1) order by array_position($1, id)',
        [ids],
      )
    ).rows.map(({ last_used_at }) => last_used_at?.getTime() ?? null)
  for (const id of [ids[0]!, ids[0]!, ids[1]!]) lastUse.note(id)
  await lastUse.close()
  expect(asked).toHaveBeenCalledTimes(1)
  expect(await uses()).toEqual([now, now])
  const first = now
  now += 59_999
  lastUse.note(ids[0]!)
  await lastUse.close()
  expect(asked).toHaveBeenCalledTimes(1)
  now += 1
  lastUse.note(ids[0]!)
  await lastUse.close()
  expect(await uses()).toEqual([now, first])
  const behind = createLastUse({ relational, log, now: () => first })
  behind.note(ids[0]!)
  await behind.close()
  expect(await uses()).toEqual([now, first])
})

test('a last use that cannot be written is lost, and nothing else', async () => {
  const query = () => Promise.reject(new Error('away'))
  const lastUse = createLastUse({ relational: { ...relational, query }, log: pino({ level: 'silent' }) })
  lastUse.note('ak_1')
  await expect(lastUse.close()).resolves.toBeUndefined()
})

test('trades that come together are looked up together, and each gets its own answer', async () => {
  await provisionAgent(relational, { agentId: 'together' })
  const made = []
  for (let n = 0; n < 20; n++) made.push(await issueAgentKey(relational, { agentId: 'together' }))
  await revokeAgentKey(relational, made[3]!.record.id)
  const asked = vi.fn()
  const query: Relational['query'] = (text, params) => {
    asked()
    return relational.query(text, params)
  }
  const holders = createKeyHolders({ ...relational, query })
  const unknown = `svc_${'1'.repeat(64)}`
  const keys = [...made.map(({ key }) => key), unknown, made[0]!.key]
  const found = await Promise.all(keys.map((key) => holders.find(hashAgentKey(key))))
  const ids = made.map(({ record }, n) => (n === 3 ? undefined : record.id))
  expect(found.map((holder) => holder?.agentKeyId)).toEqual([...ids, undefined, made[0]!.record.id])
  expect(asked).toHaveBeenCalledTimes(2)
})

test('a database that is away is said to all that wait, and is asked again', async () => {
  let away = true
  const query: Relational['query'] = (text, params) =>
    away ? Promise.reject(new Error('away')) : relational.query(text, params)
  const holders = createKeyHolders({ ...relational, query })
  const key = hashAgentKey(`svc_${'2'.repeat(64)}`)
  const answers = await Promise.allSettled([holders.find(key), holders.find(key)])
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  away = false
  expect(await holders.find(key)).toBeUndefined()
})
