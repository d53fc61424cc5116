/** The client of the main API against a running platform: its own sign-in, and the end of its key. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { createMainApi } from '#client/client.ts'
import { type MainApiPlatform, openMainApiPlatform } from '#test/support/main-api-platform.ts'

let platform: MainApiPlatform

beforeAll(async () => {
  platform = await openMainApiPlatform()
})
afterAll(() => platform?.close())

test('an agent signs in with its key alone and calls the main API', async () => {
  const { key, uid } = await platform.issueKey('scout', { access: 'viewer' })
  const api = createMainApi({ baseUrl: platform.baseUrl, agentKey: key })
  const me = await api.me()
  expect(me).toMatchObject({ uid, kind: 'agent', slug: 'scout', role: 'viewer' })
  expect(me.permissions).toContain('GET /api/v1/me')
  await api.close()
})

test('the address of the exchange is the one that addresses.json names', async () => {
  const { key } = await platform.issueKey('ranger')
  const identityExchangeUrl = platform.addresses.identity_exchange_url as string
  const api = createMainApi({ baseUrl: platform.baseUrl, agentKey: key, identityExchangeUrl })
  expect((await api.me()).slug).toBe('ranger')
  await api.close()
})

test('an admin issues and revokes keys by it; the revoked one ends its tokens', async () => {
  const { key } = await platform.issueKey('chief', { access: 'admin' })
  const admin = createMainApi({ baseUrl: platform.baseUrl, agentKey: key })
  await platform.provision({ agentId: 'worker' })
  const issued = await admin.request<{ id: string; key: string }>('POST', 'agent-keys', {
    body: { agent_id: 'worker', label: 'test' },
  })
  const worker = createMainApi({ baseUrl: platform.baseUrl, agentKey: issued.key })
  expect((await worker.me()).slug).toBe('worker')
  await expect(worker.request('GET', 'agent-keys')).rejects.toMatchObject({ code: 'forbidden', status: 403 })
  await admin.request('DELETE', `agent-keys/${issued.id}`)
  await expect(worker.me()).rejects.toMatchObject({ code: 'unauthorized', status: 401 })
  await Promise.all([admin.close(), worker.close()])
})
