/** Agents: provisioned, rotated, changed and deleted, each with its record for the log. */

import { createPrivateKey, sign } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import {
  deleteAgent,
  listAgents,
  placePrivateKey,
  provisionAgent,
  rotateAgent,
  showAgent,
  updateAgent,
  waitUntilPublished,
} from '#services/access/agents/agents.ts'
import {
  fingerprintOf,
  generateAgentKey,
  isSignedBy,
  publicKeyObject,
} from '#services/access/agents/key-pair.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'
import { temporaryFolder } from '../../../../support/temporary.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())

async function outboxRows(agentId: string, topic = 'agents.changes') {
  const { rows } = await relational.query<{ topic: string; key: string; value: Record<string, unknown> }>(
    'select topic, key, value from platform.outbox where key = $1 and topic = $2 order by id',
    [agentId, topic],
  )
  return rows
}

test('a provisioned agent has a key pair whose public half and fingerprint are stored', async () => {
  const { agent, privateKeyPem } = await provisionAgent(relational, { agentId: 'Whale-1', role: 'analyst' })
  expect(agent).toMatchObject({
    agent_id: 'Whale-1',
    name: 'Whale-1',
    role: 'analyst',
    access: 'member',
    tier: 'agent',
    quota: null,
    version: 1,
  })
  const { rows } = await relational.query<{ public_key: Buffer }>(
    'select public_key from platform.agents where uid = $1',
    [agent.uid],
  )
  const signature = sign(null, Buffer.from('text'), createPrivateKey(privateKeyPem))
  expect(await isSignedBy(publicKeyObject(rows[0]!.public_key), 'text', signature)).toBe(true)
  expect(await isSignedBy(publicKeyObject(rows[0]!.public_key), 'other', signature)).toBe(false)
  expect(fingerprintOf(rows[0]!.public_key)).toBe(agent.public_key_fingerprint)
  expect((await showAgent(relational, 'whale-1')).uid).toBe(agent.uid)
})

test('signatures are verified off the event loop', async () => {
  const { publicKey, privateKeyPem } = generateAgentKey()
  const signature = sign(null, Buffer.from('text'), createPrivateKey(privateKeyPem))
  let verified = false
  const verifying = isSignedBy(publicKeyObject(publicKey), 'text', signature).then(() => {
    verified = true
  })
  // A result computed on the event loop would be known before its next turn.
  for (let turn = 0; turn < 1_000; turn++) await Promise.resolve()
  expect(verified).toBe(false)
  await verifying
})

test('the fingerprint is the one that ssh-keygen prints', () => {
  // ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
  expect(fingerprintOf(Buffer.alloc(32))).toBe('SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk')
})

test('agent ids are unique without case', async () => {
  await provisionAgent(relational, { agentId: 'Pulse' })
  await expect(provisionAgent(relational, { agentId: 'PULSE' })).rejects.toMatchObject({
    code: 'agent_exists',
  })
})

test.each(['', '-a', '.a', 'a b', 'a/b', "x' OR 1=1", 'ä', 'a'.repeat(65), 'a\0'])(
  'the agent id %j is refused',
  async (agentId) => {
    await expect(provisionAgent(relational, { agentId })).rejects.toMatchObject({ code: 'validation_failed' })
  },
)

test.each([
  { quota: -1 },
  { quota: 1.5 },
  { role: '' },
  { role: 'x'.repeat(65) },
  { tier: 'big' as 'agent' },
  { burst: 0 },
  { burst: 10_001 },
  { concurrent: 0 },
  { concurrent: 2.5 },
  { access: 'owner' as 'admin' },
])('provisioning with %j is refused', async (fault) => {
  const [field] = Object.keys(fault)
  await expect(provisionAgent(relational, { agentId: 'faulty', ...fault })).rejects.toMatchObject({
    code: 'validation_failed',
    errors: [{ path: `/${field}`, message: expect.stringMatching(/^must /) }],
  })
})

test('an update changes the named fields alone; null resets a figure', async () => {
  const made = { agentId: 'orca', quota: 5, burst: 100, concurrent: 9, access: 'viewer' } as const
  const { agent } = await provisionAgent(relational, made)
  expect(agent).toMatchObject({ quota: 5, burst: 100, concurrent: 9, access: 'viewer' })
  await updateAgent(relational, 'ORCA', { burst: null, concurrent: 3, access: 'member', name: 'Orca' })
  const { updated_at: _, version, ...changed } = await showAgent(relational, 'orca')
  const { updated_at: __, ...before } = agent
  expect({ ...changed, version: 1 }).toEqual({
    ...{ ...before, version: 1 },
    ...{ burst: null, concurrent: 3, access: 'member', name: 'Orca' },
  })
  expect(version).toBe(2)
  for (const fault of [{}, { burst: 0 }, { role: 'a\0' }]) {
    await expect(updateAgent(relational, 'orca', fault)).rejects.toMatchObject({ code: 'validation_failed' })
  }
  await expect(updateAgent(relational, 'nobody', { burst: 1 })).rejects.toMatchObject({ code: 'not_found' })
  await expect(updateAgent(relational, 'a\0', { burst: 1 })).rejects.toMatchObject({ code: 'not_found' })
})

test('every change writes its outbox row in the same transaction, in order', async () => {
  await provisionAgent(relational, { agentId: 'atlas', quota: 5 })
  await updateAgent(relational, 'ATLAS', { tier: 'infra-architect', burst: 7 })
  await updateAgent(relational, 'atlas', { quota: null })
  await rotateAgent(relational, 'atlas')
  await deleteAgent(relational, 'atlas')
  await expect(deleteAgent(relational, 'atlas')).rejects.toMatchObject({ code: 'not_found' })
  const rows = await outboxRows('atlas')
  expect(rows.map((row) => row.value.change)).toEqual([
    'provisioned',
    'updated',
    'updated',
    'rotated',
    'deleted',
  ])
  expect(rows.map(({ value }) => [value.tier, value.quota, value.burst])).toEqual([
    ['agent', 5, null],
    ['infra-architect', 5, 7],
    ...Array.from({ length: 3 }, () => ['infra-architect', null, 7]),
  ])
  expect(rows.map((row) => row.value.version)).toEqual([1, 2, 3, 4, 5])
  expect((await listAgents(relational)).some((agent) => agent.agent_id === 'atlas')).toBe(false)
})

test('deleting an agent publishes to the fleet that it is terminated, each time under a task id of its own', async () => {
  for (let n = 0; n < 2; n++) {
    await provisionAgent(relational, { agentId: 'Kraken' })
    await deleteAgent(relational, 'kraken')
  }
  const values = (await outboxRows('Kraken', 'fleet.events')).map((row) => row.value)
  expect(values).toHaveLength(2)
  for (const value of values) {
    expect(value).toMatchObject({
      event: 'agent.terminated',
      agent: 'Kraken',
      result: '{"reason":"deleted"}',
    })
    expect(value.task_id).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(Math.abs((value.ts as number) - Date.now() / 1_000)).toBeLessThan(120)
  }
  expect(values[0]!.task_id).not.toBe(values[1]!.task_id)
})

test('rotating ends gateway keys and challenges', async () => {
  const { agent } = await provisionAgent(relational, { agentId: 'cipher' })
  await relational.query(
    `insert into platform.gateway_keys (hash, agent_uid, shown, expires_at) values ('\\x01', $1, 'abcdef', now() + interval '1 hour')`,
    [agent.uid],
  )
  await relational.query(
    `insert into platform.challenges (agent_uid, address, client_nonce, server_nonce, expires_at) values ($1, 'a', 'b', 'c', now() + interval '1 hour')`,
    [agent.uid],
  )
  const rotated = await rotateAgent(relational, 'cipher')
  expect(rotated.agent.public_key_fingerprint).not.toBe(agent.public_key_fingerprint)
  for (const table of ['gateway_keys', 'challenges']) {
    const { rows } = await relational.query<{ n: number }>(
      `select count(*)::int as n from platform.${table} where agent_uid = $1`,
      [agent.uid],
    )
    expect(rows[0]!.n).toBe(0)
  }
})

test('the wait for a change ends after its record is published', async () => {
  const { outboxId } = await provisionAgent(relational, { agentId: 'nexus' })
  await expect(waitUntilPublished(relational, outboxId, 60)).rejects.toMatchObject({
    code: 'log_unavailable',
  })
  setTimeout(() => void relational.query('delete from platform.outbox where id = $1', [outboxId]), 50)
  await waitUntilPublished(relational, outboxId)
})

test('a private key is written once, for its owner only, and replaced only by force', async () => {
  const directory = join(temporaryFolder(), 'volume')
  const place = (force = false) =>
    placePrivateKey({ directory, force }, async ({ privateKeyPem }) => ({ written: privateKeyPem }))
  const placed = await place()
  expect(placed).toEqual({ written: expect.any(String), privateKeyFile: join(directory, 'ed25519.pem') })
  expect(statSync(placed.privateKeyFile).mode & 0o777).toBe(0o600)
  expect(statSync(directory).mode & 0o777).toBe(0o700)
  await expect(place()).rejects.toMatchObject({ code: 'conflict' })
  expect(readFileSync(placed.privateKeyFile, 'utf8')).toBe(placed.written)
  const replaced = await place(true)
  expect(replaced.written).not.toBe(placed.written)
  expect(readFileSync(placed.privateKeyFile, 'utf8')).toBe(replaced.written)
  expect(readdirSync(directory)).toEqual(['ed25519.pem'])
})

test('an agent that cannot be made leaves no file, and no agent is made for a place that is taken', async () => {
  const directory = join(temporaryFolder(), 'volume')
  const fails = placePrivateKey({ directory }, (key) =>
    provisionAgent(relational, { agentId: 'bad id' }, key),
  )
  await expect(fails).rejects.toMatchObject({ code: 'validation_failed' })
  expect(readdirSync(directory)).toEqual([])
  mkdirSync(directory, { recursive: true })
  writeFileSync(join(directory, 'ed25519.pem'), 'taken')
  const taken = placePrivateKey({ directory }, (key) => provisionAgent(relational, { agentId: 'axon' }, key))
  await expect(taken).rejects.toMatchObject({ code: 'conflict' })
  await expect(showAgent(relational, 'axon')).rejects.toMatchObject({ code: 'not_found' })
  expect(existsSync(join(directory, 'ed25519.pem'))).toBe(true)
})
