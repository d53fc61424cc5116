/** The way of an agent with Firebase as identity provider: the Auth emulator of firebase-tools, one for this file. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { revokeAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { waitUntilPublished } from '#services/access/agents/agents.ts'
import { emulatedProject, openAuthEmulator } from '../../scripts/servers/firebase.ts'
import { type MainApiPlatform, openMainApiPlatform, trade } from '../support/main-api-platform.ts'

let emulator: Awaited<ReturnType<typeof openAuthEmulator>>
let api: MainApiPlatform
beforeAll(async () => {
  emulator = await openAuthEmulator()
  const variables = { FIREBASE_PROJECT_ID: emulatedProject, FIREBASE_AUTH_EMULATOR_HOST: emulator.host }
  // The admin library reads the emulator's address from here alone.
  Object.assign(process.env, variables)
  api = await openMainApiPlatform(variables)
})
afterAll(async () => {
  await api?.close()
  await emulator?.close()
})

const me = (token: string) => api.call('GET', '/api/v1/me', { token })

async function exchange(token: string): Promise<string> {
  const answer = await fetch(`${api.addresses.identity_exchange_url}?key=any`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token, returnSecureToken: true }),
  })
  return ((await answer.json()) as { idToken: string }).idToken
}

test('key, custom token, ID token and role, and the end of all by revoking the key', async () => {
  const { key, id, uid } = await api.issueKey('whale', { access: 'viewer' })
  const idToken = await exchange(await trade(api.call, key))
  expect((await me(idToken)).json).toMatchObject({ ok: true, data: { uid, slug: 'whale', role: 'viewer' } })
  const refused = await api.call('GET', '/api/v1/agent-keys', { token: idToken })
  expect([refused.status, refused.json.code]).toEqual([403, 'forbidden'])
  const { relational } = api.platform.engines
  const { outboxId } = await revokeAgentKey(relational, id)
  await waitUntilPublished(relational, outboxId!)
  expect((await me(idToken)).json).toMatchObject({ status: 401, code: 'unauthorized' })
})

test('the local issuer is not there', async () => {
  for (const path of ['/.well-known/jwks.json', '/.well-known/openid-configuration']) {
    expect((await api.call('GET', path)).status).toBe(404)
  }
})

test('settings that would let unsigned tokens into production do not start', async () => {
  await expect(
    openMainApiPlatform({
      FIREBASE_PROJECT_ID: emulatedProject,
      FIREBASE_AUTH_EMULATOR_HOST: emulator.host,
      NODE_ENV: 'production',
    }),
  ).rejects.toThrow(/FIREBASE_AUTH_EMULATOR_HOST must not be set where NODE_ENV is production/)
})

test('Firebase away: 503 identity_unavailable, and a key is still refused by its shape', async () => {
  const token = await exchange(await trade(api.call, (await api.issueKey('pulse')).key))
  expect((await me(token)).status).toBe(200)
  await emulator.close()
  const answer = await me(token)
  expect([answer.status, answer.json.code]).toEqual([503, 'identity_unavailable'])
  expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
  const malformed = await api.call('POST', '/api/v1/auth/agent', { body: { key: 'svc_' } })
  expect(malformed.status).toBe(400)
})
