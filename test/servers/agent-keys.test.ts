/** `flotilla agent-keys`, and tokens while secrets get another key, against a platform of its own process. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { AgentKeyView } from '#operations/agent-keys.ts'
import { runCommand, runJson } from '../support/command-line.ts'
import { type Addresses, startFlotilla } from '../support/flotilla-process.ts'
import { call } from '../support/gateway-call.ts'

const home = mkdtempSync(join(tmpdir(), 'fl-'))
let addresses: Addresses
let end = async () => {}
beforeAll(async () => {
  const atEnd = (kill: () => Promise<void>) => {
    end = kill
  }
  addresses = (await startFlotilla(home, { atEnd })).addresses
}, 180_000)
afterAll(async () => {
  await end()
  rmSync(home, { recursive: true, force: true })
})

const flotilla = <T>(...args: string[]) => runJson<T>(args, { FLOTILLA_HOME: home })

test('agent-keys: issue, list, revoke', { timeout: 120_000 }, async () => {
  await flotilla('agents', 'provision', '--agent-id', 'Keeper')
  const made = await flotilla<AgentKeyView & { key: string }>(
    'agent-keys',
    'issue',
    'keeper',
    '--label',
    'ci',
  )
  expect(made).toEqual({
    id: expect.stringMatching(/^ak_/),
    agent_id: 'Keeper',
    label: 'ci',
    created_at: expect.stringMatching(/Z$/),
    last_used_at: null,
    revoked_at: null,
    key: expect.stringMatching(/^svc_[0-9a-f]{64}$/),
  })
  const trade = () => call(addresses.base_url, '/api/v1/auth/agent', { body: { key: made.key } })
  expect((await trade()).status).toBe(200)
  const { key: _, ...shown } = made
  const { agent_keys } = await flotilla<{ agent_keys: AgentKeyView[] }>('agent-keys', 'list', 'KEEPER')
  expect(agent_keys).toEqual([{ ...shown, last_used_at: agent_keys[0]!.last_used_at }])
  const table = await runCommand(['agent-keys', 'list'], { FLOTILLA_HOME: home })
  expect(table.stdout).toMatch(new RegExp(`${made.id}\\s+Keeper\\s+ci`))
  expect(table.stdout).not.toContain(made.key.slice(4, 20))
  const revoked = await flotilla<AgentKeyView>('agent-keys', 'revoke', made.id)
  expect(revoked.revoked_at).toMatch(/Z$/)
  expect((await trade()).status).toBe(401)
  // Again is no fault: it is revoked.
  expect(await flotilla<AgentKeyView>('agent-keys', 'revoke', made.id)).toMatchObject({
    revoked_at: revoked.revoked_at,
  })
  const unknown = await runCommand(['agent-keys', 'revoke', 'ak_none'], { FLOTILLA_HOME: home })
  expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('no agent key of this id')])
})

test('tokens go on while the secrets at rest get another key', { timeout: 120_000 }, async () => {
  await flotilla('agents', 'provision', '--agent-id', 'rotated', '--tier', 'infra-architect')
  const { key } = await flotilla<{ key: string }>('agent-keys', 'issue', 'rotated')
  const { json } = await call(addresses.base_url, '/api/v1/auth/agent', { body: { key } })
  const { customToken } = json.data as { customToken: string }
  const { json: exchanged } = await call(addresses.identity_exchange_url, '', {
    body: { token: customToken },
  })
  await flotilla('secrets', 'rotate')
  const me = await call(addresses.base_url, '/api/v1/me', { key: exchanged.idToken as string })
  expect(me.status).toBe(200)
  // A token that names a key which nobody has makes it read the keys, under their new encryption.
  const head = Buffer.from(JSON.stringify({ alg: 'ES256', kid: 'none' })).toString('base64url')
  const [, body, signature] = (exchanged.idToken as string).split('.')
  await new Promise((resolve) => setTimeout(resolve, 1_100))
  const unknown = await call(addresses.base_url, '/api/v1/me', { key: `${head}.${body}.${signature}` })
  expect([unknown.status, unknown.json.code]).toEqual([401, 'unauthorized'])
})
