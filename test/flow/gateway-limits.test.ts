/** Burst, concurrency and daily quota as agents see them: answers, headers and waits. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { showAgentAction } from '#operations/agents/actions.ts'
import {
  deleteAgent,
  type NewAgent,
  updateAgent,
  waitUntilPublished,
} from '#services/access/agents/agents.ts'
import { eventually } from '../support/eventually.ts'
import { type BareCall, call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { holdRequest } from '../support/held-request.ts'
import { operating } from '../support/operator.ts'
import { axisVector } from '../support/points.ts'

// Many requests, one after the other: a busy machine takes its time.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 })

let gateway: GatewayPlatform
beforeAll(async () => {
  gateway = await openGatewayPlatform()
})
afterAll(() => gateway.close())

interface Known {
  agentId: string
  uid: string
  key: string
  client: Client
}

async function known(agent: NewAgent): Promise<Known> {
  const { uid, privateKeyPem } = await gateway.provision({ tier: 'agent', ...agent })
  const client = createClient({ vectorUrl: gateway.vectorUrl, agentId: agent.agentId, privateKeyPem })
  return { agentId: agent.agentId, uid, key: await client.apiKey(), client }
}
const send = ({ key }: Known, path: string, given: BareCall = {}) =>
  call(gateway.vectorUrl, path, { key, ...given })
const count = (agent: Known) => send(agent, '/v1/vectors/count?collection=posts')
/** The last operations of an agent, once their ends are written: that takes some hundred milliseconds. */
const endedOperations = (agent: Known) =>
  eventually('all ends are written', async () => {
    const { json } = await send(agent, `/v1/debug/agent/${agent.agentId}`)
    const operations = json.operations as { outcome: string; operation: string }[]
    return operations.some(({ outcome }) => outcome === 'unknown') ? undefined : operations
  })
const waiting = (seconds: unknown) => new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1_000))

test('every metered answer names the policy and the remaining quota; the others do not', async () => {
  const agent = await known({ agentId: 'counted', quota: 20 })
  const body = { collection: 'posts', vector: axisVector(1) }
  const metered = [
    await count(agent),
    await send(agent, '/v1/vectors/search', { body }),
    await send(agent, '/v1/vectors/get?collection=posts&ids=a'),
    await send(agent, '/v1/vectors/scroll', { body: { collection: 'posts' } }),
    await send(agent, '/v1/vectors/upsert', {
      body: { collection: 'posts', points: [{ id: 'a', vector: axisVector(1) }] },
    }),
    await send(agent, '/v1/vectors/delete', { method: 'DELETE', body: { collection: 'posts', ids: ['a'] } }),
    await send(agent, '/v1/embeddings', { body: { input: 'one' } }),
    // Whatever the outcome.
    await send(agent, '/v1/vectors/get?collection=posts&id=absent'),
    await send(agent, '/v1/vectors/search', { body: { collection: 'posts' } }),
    await send(agent, '/v1/vectors/count?collection=nowhere'),
  ]
  expect(metered.map(({ status }) => status)).toEqual([200, 200, 200, 200, 202, 202, 200, 404, 422, 404])
  expect(metered.map(({ headers }) => headers.get('ratelimit')?.split(';')[1])).toEqual(
    Array.from({ length: 10 }, (_, n) => `r=${19 - n}`),
  )
  for (const { headers } of metered) {
    expect(headers.get('ratelimit-policy')).toBe(
      '"second";q=50;w=1, "day";q=20;w=86400, "concurrent";q=5;qu="concurrent-requests"',
    )
    expect(headers.get('ratelimit')).toMatch(/^"day";r=\d+;t=\d+$/)
  }
  const operation = (await send(agent, '/v1/operations/x')).headers
  const others = [
    await send(agent, '/v1/stats'),
    await send(agent, '/v1/debug/agent/counted'),
    await send(agent, '/v1/health'),
  ]
  for (const headers of [operation, ...others.map((one) => one.headers)])
    expect(headers.get('ratelimit')).toBeNull()
  expect((await count(agent)).headers.get('ratelimit')).toMatch(/^"day";r=9;/)
})

test('own figures win over the tier, and a change of them acts at once', async () => {
  const agent = await known({ agentId: 'shaped', burst: 3, concurrent: 1 })
  const { relational } = gateway.platform.engines
  const policy = async () => (await count(agent)).headers.get('ratelimit-policy')
  expect(await policy()).toBe(
    '"second";q=3;w=1, "day";q=10000;w=86400, "concurrent";q=1;qu="concurrent-requests"',
  )
  await eventually('the burst is met', async () => {
    const answers = await Promise.all(Array.from({ length: 5 }, () => count(agent)))
    return answers.every(({ status }) => status === 429) ? true : undefined
  })
  await waitUntilPublished(
    relational,
    (await updateAgent(relational, 'shaped', { burst: 500, concurrent: null })).outboxId,
  )
  expect(await policy()).toBe(
    '"second";q=500;w=1, "day";q=10000;w=86400, "concurrent";q=5;qu="concurrent-requests"',
  )
  const { json } = await send(agent, '/v1/debug/agent/shaped')
  expect(json.quota).toMatchObject({ burst: { limit: 500 }, concurrent: { limit: 5 } })
})

test('a viewer reads and searches; what it would write is 403 and audited, until its access is another', async () => {
  const agent = await known({ agentId: 'onlooker', access: 'viewer' })
  const point = { id: 'seen', vector: axisVector(1) }
  const upsert = () => send(agent, '/v1/vectors/upsert', { body: { collection: 'posts', points: [point] } })
  const remove = () =>
    send(agent, '/v1/vectors/delete', { method: 'DELETE', body: { collection: 'posts', ids: ['seen'] } })
  expect((await count(agent)).status).toBe(200)
  const search = { collection: 'posts', vector: axisVector(1) }
  expect((await send(agent, '/v1/vectors/search', { body: search })).status).toBe(200)
  for (const { status, json } of [await upsert(), await remove()]) {
    expect([status, json.code]).toEqual([403, 'forbidden'])
  }
  const refused = (await endedOperations(agent)).filter(({ outcome }) => outcome === 'forbidden')
  expect(refused.map(({ operation }) => operation).sort()).toEqual(['delete', 'upsert'])
  const { relational } = gateway.platform.engines
  await waitUntilPublished(
    relational,
    (await updateAgent(relational, 'onlooker', { access: 'member' })).outboxId,
  )
  expect([(await upsert()).status, (await remove()).status]).toEqual([202, 202])
})

test('the quota holds: 429 quota_exceeded until 00:00 UTC; a higher one acts at once', async () => {
  const agent = await known({ agentId: 'few', quota: 3 })
  for (let n = 0; n < 3; n++) expect((await count(agent)).status).toBe(200)
  const refused = await count(agent)
  expect([refused.status, refused.json.code]).toEqual([429, 'quota_exceeded'])
  const midnight = new Date().setUTCHours(24, 0, 0, 0)
  expect(Date.now() + (refused.json.retryAfter as number) * 1_000).toBeGreaterThan(midnight - 5_000)
  expect(Number(refused.headers.get('retry-after'))).toBe(Math.ceil(refused.json.retryAfter as number))
  const { relational } = gateway.platform.engines
  await waitUntilPublished(relational, (await updateAgent(relational, 'few', { quota: 4 })).outboxId)
  expect([(await count(agent)).status, (await count(agent)).status]).toEqual([200, 429])
  await waitUntilPublished(
    relational,
    (await updateAgent(relational, 'few', { tier: 'infra-architect' })).outboxId,
  )
  // An own quota holds in every tier.
  expect((await count(agent)).status).toBe(429)
  await waitUntilPublished(relational, (await updateAgent(relational, 'few', { quota: null })).outboxId)
  for (let n = 0; n < 60; n++) expect((await count(agent)).status).toBe(200)
  expect((await count(agent)).headers.get('ratelimit')).toBeNull()
  await waitUntilPublished(relational, (await deleteAgent(relational, 'few')).outboxId)
  expect((await count(agent)).status).toBe(401)
})

test('slots are freed by broken connections and by faults; waiting for retryAfter works', async () => {
  const agent = await known({ agentId: 'narrow' })
  const held = Array.from({ length: 5 }, () => holdRequest(gateway.vectorUrl, agent.key))
  const running = async () => {
    const { json } = await send(agent, '/v1/debug/agent/narrow')
    return (json.quota as { concurrent: { running: number } }).concurrent.running
  }
  await eventually('five run', async () => (await running()) === 5)
  const refused = await count(agent)
  expect([refused.status, refused.json.code]).toEqual([429, 'too_many_concurrent'])
  expect(refused.json.retryAfter).toBeGreaterThan(0)
  for (const one of held) one.drop()
  await eventually('none runs', async () => (await running()) === 0)
  await waiting(refused.json.retryAfter)
  expect((await count(agent)).status).toBe(200)
  for (let round = 0; round < 4; round++) {
    const wrong = await Promise.all(
      Array.from({ length: 5 }, () => send(agent, '/v1/vectors/search', { body: '{', headers: {} })),
    )
    expect(wrong.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400])
  }
  expect((await count(agent)).status).toBe(200)
})

test('a refused flood is no operation and is counted in one summary', async () => {
  const agent = await known({ agentId: 'flooding', quota: 2 })
  for (let n = 0; n < 40; n++) await count(agent)
  const debug = await send(agent, '/v1/debug/agent/flooding')
  expect(debug.json).toMatchObject({
    quota: { day: { limit: 2, used: 2, remaining: 0 }, burst: { limit: 50 } },
  })
  const counts = (await endedOperations(agent)).filter(({ operation }) => operation === 'count')
  expect(counts.map(({ outcome }) => outcome)).toEqual(['ok', 'ok'])
})

test('an agent that is made again under an old id is not shown what the old one did', async () => {
  const old = await known({ agentId: 'renewed' })
  expect((await count(old)).status).toBe(200)
  expect((await endedOperations(old)).map(({ operation }) => operation)).toContain('count')
  await deleteAgent(gateway.platform.engines.relational, 'renewed')
  const renewed = await known({ agentId: 'renewed' })
  await send(renewed, '/v1/vectors/search', { body: { collection: 'posts', vector: axisVector(1) } })
  const shown = await eventually('its own are shown', async () => {
    const operations = (await endedOperations(renewed)).map(({ operation }) => operation)
    return operations.includes('search') ? operations : undefined
  })
  expect(shown).not.toContain('count')
  const asOperators = await showAgentAction.run(operating(gateway.platform), { agent_id: 'renewed' })
  const names = asOperators.operations.map(({ operation }) => operation)
  expect(names).toContain('search')
  expect(names).not.toContain('count')
})

test('the client waits out a 429 when it is asked to, and passes it on otherwise', async () => {
  const { privateKeyPem } = await gateway.provision({ agentId: 'patient', tier: 'agent' })
  const options = { vectorUrl: gateway.vectorUrl, agentId: 'patient', privateKeyPem }
  const patient = createClient({ ...options, waitOutLimitsMs: 60_000 })
  const brisk = createClient({ ...options, attemptsMax: 1 })
  const codes: unknown[] = []
  const flood = Array.from({ length: 150 }, () =>
    brisk.count('posts').catch((error) => codes.push(error.code)),
  )
  await Promise.all(flood)
  expect(codes.length).toBeGreaterThan(0)
  for (const code of codes) expect(['rate_limited', 'too_many_concurrent']).toContain(code)
  const counts = await Promise.all(Array.from({ length: 60 }, () => patient.count('posts')))
  expect(counts).toEqual(Array.from({ length: 60 }, () => counts[0]))
})

test('stats show points, index and the p95 of searches to any valid key, and nobody else', async () => {
  const agent = await known({ agentId: 'curious' })
  await agent.client.upsert('almemsha', [{ id: 's', vector: axisVector(4) }], { wait: true })
  await agent.client.search({ collection: 'almemsha', vector: axisVector(4) })
  const stats = await agent.client.stats()
  const one = stats.collections.find(({ collection }) => collection === 'almemsha')
  expect(one).toMatchObject({ points: 1, index_status: expect.stringMatching(/ready|indexing/) })
  expect(one?.index_bytes).toBeGreaterThan(0)
  expect(one?.indexed_share).toBeGreaterThanOrEqual(0)
  expect(stats.search.requests).toBeGreaterThan(0)
  expect(stats.search.p95_ms).toBeGreaterThan(0)
  expect((await call(gateway.vectorUrl, '/v1/stats')).status).toBe(401)
})

test('debug shows sessions without keys, the last operations and the quota, to those who may look', async () => {
  const agent = await known({ agentId: 'Watched', quota: 100 })
  const other = await known({ agentId: 'other' })
  const architect = await known({ agentId: 'architect', tier: 'infra-architect' })
  const admin = await known({ agentId: 'boss', access: 'admin' })
  for (let n = 0; n < 55; n++) {
    await agent.client.count('posts')
  }
  await send(agent, '/v1/vectors/get?collection=posts&id=absent')
  const debug = await eventually('all ends are written', async () => {
    const { status, json, text } = await send(agent, '/v1/debug/agent/watched')
    const operations = json.operations as { outcome: string }[]
    if (operations.some(({ outcome }) => outcome === 'unknown')) return undefined
    // A slot is given back a moment after its answer.
    if ((json.quota as { concurrent: { running: number } }).concurrent.running > 0) return undefined
    return { status, json, text, operations }
  })
  expect(debug.status).toBe(200)
  expect(debug.json).toMatchObject({
    agent_id: 'Watched',
    tier: 'agent',
    sessions: [{ key: agent.key.slice(8, 14) }],
    quota: { day: { limit: 100, used: 56, remaining: 44 }, concurrent: { limit: 5, running: 0 } },
  })
  expect(debug.text).not.toContain(agent.key.slice(8, 15))
  expect(debug.operations).toHaveLength(50)
  expect(debug.operations[0]).toMatchObject({
    operation: 'get',
    outcome: 'point_not_found',
    status_code: 404,
    collection: 'posts',
  })
  expect(debug.operations[1]).toMatchObject({ operation: 'count', outcome: 'ok', status_code: 200, count: 1 })
  for (const looker of [architect, admin]) {
    expect((await send(looker, '/v1/debug/agent/Watched')).status).toBe(200)
    expect((await send(looker, '/v1/debug/agent/nobody')).status).toBe(404)
  }
  for (const id of ['Watched', 'nobody']) {
    expect((await send(other, `/v1/debug/agent/${id}`)).status).toBe(403)
  }
  expect((await call(gateway.vectorUrl, '/v1/debug/agent/Watched')).status).toBe(401)
})
