/** Every route of the main API with every role, and with no token: made from the table of roles, whatever it holds. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { accessLevels } from '#services/access/agents/agents.ts'
import { type Least, rbac } from '#services/main-api/rbac.ts'
import { type Answer, call } from '../support/gateway-call.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'

let api: MainApiPlatform
beforeAll(async () => {
  api = await openMainApiPlatform()
})
afterAll(() => api?.close())

const routes = Object.entries(rbac).map(([name, least]): [string, Least] => [name, least])
const guarded = routes.filter(([, least]) => least !== 'open')
const open = routes.filter(([, least]) => least === 'open')

/** Names nothing that exists, and sends no good body: an allowed call changes nothing. Streams are cut at once. */
async function ask(name: string, token?: string): Promise<Pick<Answer, 'status' | 'json'>> {
  const [method = '', path = ''] = name.split(' ')
  const cut = new AbortController()
  const answer = await fetch(`${api.baseUrl}${addressOf(path)}`, {
    method,
    signal: cut.signal,
    redirect: 'manual',
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(method === 'GET' ? {} : { 'content-type': 'application/json' }),
    },
    ...(method === 'GET' ? {} : { body: 'no JSON' }),
  })
  const isProblem = answer.headers.get('content-type')?.startsWith('application/problem+json')
  const json = isProblem ? ((await answer.json()) as Record<string, unknown>) : {}
  cut.abort()
  return { status: answer.status, json }
}

function addressOf(path: string): string {
  return path
    .replaceAll('::', '\0')
    .replace(/:[A-Za-z_]+/g, 'none')
    .replaceAll('\0', ':')
    .replace('*', '')
}

describe('without a good token', () => {
  test.each(guarded)('%s is 401', async (name) => {
    for (const token of [undefined, 'x', `svc_${'0'.repeat(64)}`, `vk_live_${'A'.repeat(43)}`, 'a.b.c']) {
      const answer = await ask(name, token)
      expect([token, answer.status, answer.json.code]).toEqual([token, 401, 'unauthorized'])
    }
  })
})

describe.each(accessLevels)('as %s', (access) => {
  const rank = (least: Least) => accessLevels.indexOf(least as (typeof accessLevels)[number])
  const isAllowed = (least: Least) => rank(access) <= rank(least)
  const refused = guarded.filter(([, least]) => !isAllowed(least))
  const allowed = guarded.filter(([, least]) => isAllowed(least))

  test.runIf(refused.length > 0).each(refused)('%s (%s) is 403, before its body is read', async (name) => {
    const answer = await ask(name, await api.tokenFor(access))
    expect([answer.status, answer.json.code]).toEqual([403, 'forbidden'])
    expect(answer.json.detail).toMatch(/^This needs the role /)
  })

  test.each(allowed)('%s (%s) is let in', async (name) => {
    const answer = await ask(name, await api.tokenFor(access))
    expect(answer.status).not.toBe(401)
    expect(answer.status).toBeLessThan(500)
    // Other reasons for 403 are the handler's own.
    expect(String(answer.json.detail)).not.toMatch(/^This needs the role /)
  })

  test('me names exactly the routes that are let in', async () => {
    const { json } = await api.call('GET', '/api/v1/me', { token: await api.tokenFor(access) })
    expect((json.data as { permissions: string[] }).permissions).toEqual(allowed.map(([name]) => name).sort())
  })
})

test.each(open)('%s (%s) asks for no token', async (name) => {
  const answer = await ask(name)
  expect(answer.status).toBeLessThan(500)
  expect(answer.json.detail ?? '').not.toContain('ID token')
})

test('the table has no route that is not there, and every described one', async () => {
  const { json } = await call(api.baseUrl, '/api/v1/openapi.json')
  const described = Object.entries(json.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )
  const inTable = routes.map(([name]) => name.replace(/(?<!:):([A-Za-z_]+)/g, '{$1}').replaceAll('::', ':'))
  expect(described.filter((name) => !inTable.includes(name))).toEqual([])
  for (const [name] of guarded) {
    const answer = await ask(name, await api.tokenFor('admin'))
    // A route that looks for a missing thing is 404, too, but its detail names the thing.
    expect([name, answer.json.detail]).not.toEqual([name, 'There is nothing at this address.'])
  }
})
