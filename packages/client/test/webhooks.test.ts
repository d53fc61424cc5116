/** Firing events with and without an agent's key; repeats and refusals. */

import { expect, test } from 'vitest'
import { createClient } from '../src/client.ts'
import { createWebhookClient } from '../src/webhooks.ts'

interface Sent {
  url: string
  method: string
  headers: Headers
  body: Record<string, unknown>
}

/** A relay in memory that answers in turn as `replies` say, and then always accepts. */
function relay(replies: { status: number; json: unknown }[] = []) {
  const sent: Sent[] = []
  const fake = async (input: string, init: RequestInit) => {
    init.signal?.throwIfAborted()
    sent.push({
      url: input,
      method: init.method ?? '',
      headers: new Headers(init.headers),
      body: JSON.parse(String(init.body)),
    })
    const reply = replies.shift() ?? {
      status: 202,
      json: { idempotency_key: 'key', deliveries: [{ target: 'a', sequence: 7 }] },
    }
    return Response.json(reply.json, { status: reply.status })
  }
  return { sent, options: { fetch: fake as typeof fetch, sleep: async () => {} } }
}

const event = { event: 'task.completed', agent: 'ATLAS', task_id: 't-1' } as const

test('it fires an event at the relay of this machine', async () => {
  const { sent, options } = relay()
  const client = createWebhookClient(options)
  const before = Math.floor(Date.now() / 1_000)
  expect(await client.fire({ ...event, result: { pages: 3 } })).toEqual({
    idempotency_key: 'key',
    deliveries: [{ target: 'a', sequence: 7 }],
  })
  expect(sent[0]).toMatchObject({ url: 'http://127.0.0.1:9090/api/v1/webhooks/fire', method: 'POST' })
  expect(sent[0]?.headers.get('content-type')).toBe('application/json')
  expect(sent[0]?.body).toMatchObject({ ...event, result: { pages: 3 } })
  expect(sent[0]?.body.ts).toBeGreaterThanOrEqual(before)
})

test('it takes an address as the relay itself takes it, and names each target', async () => {
  const { sent, options } = relay()
  await createWebhookClient({ ...options, webhookUrl: 'localhost:9191' }).fire(event, {
    targets: ['a', 'b c'],
  })
  await createWebhookClient({ ...options, webhookUrl: 'http://[::1]:9191' }).fire(event)
  expect(sent.map(({ url }) => url)).toEqual([
    'http://localhost:9191/api/v1/webhooks/fire?targets=a&targets=b+c',
    'http://[::1]:9191/api/v1/webhooks/fire',
  ])
})

test('no targets is not all targets', async () => {
  const { sent, options } = relay()
  await createWebhookClient(options).fire(event, { targets: [] })
  expect(sent[0]?.url).toBe('http://127.0.0.1:9090/api/v1/webhooks/fire?targets=')
})

test('it repeats the same event while the log is away, and reports refusals', async () => {
  const away = { status: 503, json: { code: 'log_unavailable', detail: 'away', retryAfter: 1 } }
  const { sent, options } = relay([
    away,
    away,
    { status: 400, json: { code: 'unknown_target', detail: 'There is no target b.' } },
  ])
  await expect(createWebhookClient(options).fire(event)).rejects.toMatchObject({
    code: 'unknown_target',
    status: 400,
  })
  expect(sent).toHaveLength(3)
  expect(new Set(sent.map(({ body }) => JSON.stringify(body))).size).toBe(1)
})

test("an agent's client fires without a key of its own", async () => {
  const { sent, options } = relay()
  const agent = createClient({
    ...options,
    vectorUrl: 'http://gateway.test',
    webhookUrl: 'http://127.0.0.1:9191/',
    agentId: 'atlas',
    privateKeyPem: 'never read',
  })
  expect((await agent.webhooks.fire(event)).deliveries).toHaveLength(1)
  expect(sent.map(({ url, headers }) => [url, headers.get('authorization')])).toEqual([
    ['http://127.0.0.1:9191/api/v1/webhooks/fire', null],
  ])
  await agent.close()
  await expect(agent.webhooks.fire(event)).rejects.toMatchObject({ code: 'closed' })
})
