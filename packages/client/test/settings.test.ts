/** Where the platform is and who the caller is: options, variables, the data directory. */

import { expect, test } from 'vitest'
import { createClient } from '../src/client.ts'
import { type Runtime, settingsOf } from '../src/settings.ts'

/** A runtime with these variables and files. */
function runtimeOf(
  environment: Runtime['environment'] = {},
  texts: Record<string, unknown> = {},
): Runtime & { files: NonNullable<Runtime['files']> } {
  const names = (path: string) =>
    Object.keys(texts).flatMap((name) => (name.startsWith(`${path}/`) ? name.slice(path.length + 1) : []))
  return {
    environment,
    files: {
      read(path) {
        const text = texts[path]
        if (text === undefined) throw new Error(`no ${path}`)
        return typeof text === 'string' ? text : JSON.stringify(text)
      },
      list: (path) => [...new Set(names(path).map((name) => name.split('/')[0]!))],
    },
  }
}

const written = {
  vector_url: 'http://v.test:1',
  base_url: 'http://b.test:2',
  agent_gateway_url: 'http://r.test:3',
  hub_url: 'http://h.test:4',
  webhook_url: 'http://w.test:5',
  identity_exchange_url: 'http://b.test:2/exchange',
}
const home = (agents: string[]) => ({
  'd/run/addresses.json': written,
  'd/reference-nodes.json': { provisioned: ['atlas'] },
  ...Object.fromEntries(['atlas', ...agents].map((id) => [`d/agents/${id}/ed25519.pem`, `pem of ${id}`])),
})

test('an option comes before a variable, that before the data directory, that before the default', () => {
  const files = home([])
  const variables = {
    FLOTILLA_HOME: 'd',
    FLOTILLA_HUB_URL: 'http://hub.test',
    WEBHOOK_GATEWAY: 'relay.test:9',
  }
  expect(settingsOf({ vectorUrl: 'https://mine.test/at/' }, runtimeOf(variables, files)).urls).toEqual({
    vectorUrl: 'https://mine.test/at/',
    baseUrl: 'http://b.test:2',
    runUrl: 'http://r.test:3',
    hubUrl: 'http://hub.test',
    webhookUrl: 'http://relay.test:9',
  })
  expect(settingsOf({ home: 'd' }, runtimeOf({}, files)).identityExchangeUrl).toBe('http://b.test:2/exchange')
  expect(settingsOf({}, { environment: {} }).urls).toEqual({
    vectorUrl: 'http://127.0.0.1:8080',
    baseUrl: 'http://127.0.0.1:8081',
    runUrl: 'http://127.0.0.1:8082',
    hubUrl: 'http://127.0.0.1:8083',
    webhookUrl: 'http://127.0.0.1:9090',
  })
})

test('the only agent of the data directory is the caller, not counting those of the platform', () => {
  const { agentId, privateKeyPem } = settingsOf({ home: 'd' }, runtimeOf({}, home(['rover'])))
  expect([agentId, privateKeyPem?.()]).toEqual(['rover', 'pem of rover'])
  const several = settingsOf({ home: 'd' }, runtimeOf({}, home(['rover', 'beetle'])))
  expect([several.agentId, several.privateKeyPem, several.missing]).toEqual([
    undefined,
    undefined,
    'there are several agents in d/agents: set FLOTILLA_AGENT_ID to one of beetle, rover',
  ])
  const named = settingsOf({ home: 'd', agentId: 'beetle' }, runtimeOf({}, home(['rover', 'beetle'])))
  expect(named.privateKeyPem?.()).toBe('pem of beetle')
  expect(settingsOf({ home: 'd' }, runtimeOf({}, home([]))).missing).toMatch(
    /^there is no agent in d\/agents: /,
  )
})

test('a credential that is given leaves the variables of another agent alone', () => {
  const variables = {
    FLOTILLA_AGENT_ID: 'other',
    FLOTILLA_PRIVATE_KEY_FILE: 'other.pem',
    FLOTILLA_AGENT_KEY: 'svc_other\n',
  }
  const world = runtimeOf(variables, { 'other.pem': 'pem', 'own.pem': 'own' })
  const byVariables = settingsOf({}, world)
  expect([byVariables.agentId, byVariables.privateKeyPem?.(), byVariables.agentKey?.()]).toEqual([
    'other',
    'pem',
    'svc_other',
  ])
  const given = settingsOf({ agentId: 'own', privateKeyFile: 'own.pem' }, world)
  expect([given.agentId, given.privateKeyPem?.(), given.agentKey]).toEqual(['own', 'own', undefined])
})

test('what cannot work is a TypeError: a key without its agent, an address that is none, a file in a browser', () => {
  const world = runtimeOf()
  expect(() => settingsOf({ privateKeyPem: 'pem' }, world)).toThrow(/give agentId, or set FLOTILLA_AGENT_ID/)
  expect(() => settingsOf({ hubUrl: 'ftp://user:secret@hub.test' }, world)).toThrow(
    new TypeError('an address of the platform is no http or https URL'),
  )
  const { privateKeyPem } = settingsOf({ agentId: 'a', privateKeyFile: 'f' }, { environment: {} })
  expect(privateKeyPem).toThrow('there are no files here: give the key itself')
})

/** What each interface is sent, by its host. */
async function bearers(options: Parameters<typeof createClient>[0]) {
  const sent: [string, string | null][] = []
  const client = createClient({
    home: '/nowhere',
    fetch: (async (input: string, init: RequestInit) => {
      const { port, pathname } = new URL(input)
      sent.push([`${port}${pathname}`, new Headers(init.headers).get('authorization')])
      if (pathname.endsWith('/auth/agent')) return Response.json({ data: { customToken: 'c' } })
      if (pathname.endsWith('CustomToken')) return Response.json({ idToken: 'traded', expiresIn: '3600' })
      return Response.json({ data: {}, count: 1 })
    }) as typeof fetch,
    ...options,
  })
  const calls = [client.count('posts'), client.notes.get(1), client.runs.get('run_1'), client.main.me()]
  const codes = (await Promise.allSettled(calls)).map((one) =>
    one.status === 'rejected' ? (one.reason as { code: string }).code : 'sent',
  )
  return { sent: new Map(sent), codes }
}

test('a gateway key serves memory, hub and runs; an ID token the main API, and the others where it is alone', async () => {
  const both = await bearers({ apiKey: 'vk', idToken: async () => 'fresh' })
  expect(both.codes).toEqual(['sent', 'sent', 'sent', 'sent'])
  expect([...both.sent.values()]).toEqual(['Bearer vk', 'Bearer vk', 'Bearer vk', 'Bearer fresh'])
  const keyAlone = await bearers({ apiKey: 'vk' })
  expect(keyAlone.codes).toEqual(['sent', 'sent', 'sent', 'no_credential'])
  const traded = await bearers({ agentKey: 'svc_1' })
  expect(traded.sent.get('8083/fleet_notes/1')).toBe('Bearer traded')
  expect(traded.sent.get('8081/api/v1/me')).toBe('Bearer traded')
  expect((await bearers({})).codes).toEqual(Array(4).fill('no_credential'))
})
