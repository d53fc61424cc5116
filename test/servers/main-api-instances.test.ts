/** Two processes of the main API on Kafka and Postgres: a change at one acts at the other at once, on streams, too. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import type { Browser } from '../support/browser.ts'
import { createProcesses, type Processes } from '../support/distributed-process.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'
import { type EventReader, readEvents } from '../support/event-reader.ts'
import { type Answer, call } from '../support/gateway-call.ts'
import { exchange, trade } from '../support/main-api-platform.ts'
import { signIn } from '../support/people.ts'

let servers: Stack
let processes: Processes
let urls: [string, string]
/** Token of the admin who changes the others. */
let admin: string
beforeAll(async () => {
  servers = await openStack()
  processes = createProcesses(await servers.newEnvironment())
  // Where no Qdrant is, one process runs all services, and is both.
  const separate = servers.qdrant !== null
  const first = await processes.start(separate ? ['main-api', 'outbox-publisher'] : [])
  const second = separate ? await processes.start(['main-api']) : first
  urls = [first.baseUrl, second.baseUrl]
  const home = separate ? undefined : first.home
  await processes.run(['agents', 'provision', '--agent-id', 'root', '--access', 'admin'], home)
  const { key } = await processes.run<{ key: string }>(['agent-keys', 'issue', 'root'], home)
  admin = await idTokenOf(urls[0], key)
})
afterAll(async () => {
  await processes?.close()
  await servers?.close()
})

async function idTokenOf(url: string, key: string): Promise<string> {
  const at = (method: string, path: string, given = {}) => call(url, path, { method, ...given })
  return exchange(at, await trade(at, key))
}

async function asAdmin<T>(url: string, method: string, path: string, body?: object): Promise<T> {
  const answer = await call(url, path, { method, key: admin, ...(body ? { body } : {}) })
  expect([method, path, answer.text, answer.status < 300]).toEqual([method, path, answer.text, true])
  return answer.json.data as T
}

/** Somebody with the role of an admin: a token, bought at `url`, and the paths under which it can be changed. */
interface Somebody {
  token: string
  keyPath: string
  path: string
}

let made = 0

async function newAgent(url: string): Promise<Somebody> {
  made += 1
  const agent_id = `agent-${made}`
  await asAdmin(url, 'POST', '/api/v1/agents', { agent_id, access: 'admin' })
  const { id, key } = await asAdmin<{ id: string; key: string }>(url, 'POST', '/api/v1/agent-keys', {
    agent_id,
  })
  return {
    token: await idTokenOf(url, key),
    keyPath: `/api/v1/agent-keys/${id}`,
    path: `/api/v1/agents/${agent_id}`,
  }
}

async function newPerson(url: string): Promise<Somebody & { browser: Browser }> {
  made += 1
  const email = `person-${made}@x`
  const { one_time_password: password } = await asAdmin<{ one_time_password: string }>(
    url,
    'POST',
    '/api/v1/users',
    { email, role: 'admin' },
  )
  const { browser, ask, idToken } = await signIn({ baseUrl: url }, { email, password })
  const change = { current: password, new: 'a password of my own' }
  expect((await ask('PUT', '/api/v1/me/password', change)).status).toBe(200)
  return { token: idToken, keyPath: '', path: `/api/v1/users/${email}`, browser }
}

/** For admins alone. */
const audit = (url: string, token: string): Promise<Answer> =>
  call(url, '/api/v1/audit?limit=1', { key: token })

const tailAt = (url: string, token: string): Promise<EventReader> =>
  readEvents(`${url}/api/v1/log/topics/fleet.events/tail`, { token })

/** The stream ended with a word. */
async function expectOver(stream: EventReader): Promise<void> {
  expect(await Promise.race([stream.over, sleep(60_000)])).toBe(true)
  expect(stream.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'unauthorized' } })
}

interface Change {
  who(url: string): Promise<Somebody>
  at(one: Somebody): [method: string, path: string, body?: object]
  /** How the very next request is answered. */
  next: [status: number, code: string]
}

const agentEnds: Change['next'] = [401, 'unauthorized']
const changes: [string, Change][] = [
  ['a revoked agent key', { who: newAgent, at: ({ keyPath }) => ['DELETE', keyPath], next: agentEnds }],
  [
    'another access of an agent',
    {
      who: newAgent,
      at: ({ path }) => ['PATCH', path, { access: 'member' }],
      next: [403, 'forbidden'],
    },
  ],
  ['the deletion of an agent', { who: newAgent, at: ({ path }) => ['DELETE', path], next: agentEnds }],
  [
    'another role of a person',
    {
      who: newPerson,
      at: ({ path }) => ['PATCH', path, { role: 'member' }],
      next: [403, 'forbidden'],
    },
  ],
  ['the removal of a person', { who: newPerson, at: ({ path }) => ['DELETE', path], next: agentEnds }],
]

test.each(changes)(
  '%s at one instance counts at the other on the next request, and ends a stream there',
  async (_what, { who, at, next }) => {
    for (const [here, there] of [urls, [urls[1], urls[0]]] as const) {
      const somebody = await who(there)
      // Bought at one, good at both; both remember it.
      for (const url of urls) expect((await audit(url, somebody.token)).status).toBe(200)
      const [stream, stays] = [await tailAt(there, somebody.token), await tailAt(there, admin)]
      expect([stream.status, stays.status]).toEqual([200, 200])
      await asAdmin(here, ...at(somebody))
      const answers = await Promise.all([there, here].map((url) => audit(url, somebody.token)))
      expect(answers.map(({ status, json }) => [status, json.code])).toEqual([next, next])
      await expectOver(stream)
      // Those of others go on.
      expect(await Promise.race([stays.over, sleep(50)])).toBeUndefined()
      stays.cut()
    }
  },
)

test('a sign-out at one instance ends tokens and streams at the other', async () => {
  const [here, there] = urls
  const { token, browser } = await newPerson(there)
  const stream = await tailAt(there, token)
  expect(stream.status).toBe(200)
  // Cookies know no ports.
  const left = await browser.ask(`${here}/api/v1/session`, { method: 'DELETE' })
  expect(left.data).toEqual({ ended: true })
  await expectOver(stream)
  expect((await audit(there, token)).status).toBe(401)
})
