/** A second ingress, built in ten lines from the parts of the base areas. */

import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import pino from 'pino'
import { Type } from 'typebox'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { createClient } from '#client/client.ts'
import { createHttpApp, registerApiDescription } from '#runtime/http/app.ts'
import { createMetrics } from '#runtime/observe/metrics.ts'
import type { NewAgent } from '#services/access/agents/agents.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { requireGatewayKey } from '#services/access/callers/credentials.ts'
import { type Access, access, openAccess } from '#services/access/front-door.ts'
import { idempotencyHeaders, idempotencyProblems, idempotent } from '#services/access/idempotency.ts'
import { auditEvents } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { type Answer, type BareCall, call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { recordsOf } from '../support/log-reading.ts'

let gateway: GatewayPlatform
let parts: Access
let app: FastifyInstance
let url: string
let written = 0
const named = Type.Object({ name: Type.String() }, { title: 'Named' })
const note = Type.Object({ text: Type.String({ examples: ['hello'] }) }, { title: 'Note' })
const made = Type.Object(
  { number: Type.Integer(), agentId: Type.String(), access: Type.String(), tier: Type.String() },
  { title: 'Made' },
)
function write(request: FastifyRequest, reply: FastifyReply) {
  reply.code(201)
  return { number: ++written, ...callerOf(request) }
}

beforeAll(async () => {
  gateway = await openGatewayPlatform()
  const { platform } = gateway
  app = createHttpApp({ name: 'small', log: pino({ level: 'silent' }), metrics: createMetrics() })
  // The whole of a second ingress.
  await registerApiDescription(app, {
    prefix: '/small',
    title: 'Small',
    description: 'A second ingress.',
    version: '1',
    tags: [{ name: 'notes', description: 'Notes' }],
  })
  parts = await openAccess(platform, { name: 'small', daily: false })
  await app.register(async (notes) => {
    access(notes, { credential: requireGatewayKey(parts), limits: parts.limiter, trail: parts.audit })
    const name = { operationId: 'getName', summary: 'Who asks', tags: ['notes'], response: { 200: named } }
    notes.get('/name', { config: { problems: [] }, schema: name }, async (request) => ({
      name: callerOf(request).name,
    }))
    const config = { operation: 'note', problems: idempotencyProblems }
    const schema = { operationId: 'createNote', summary: 'Write a note', tags: ['notes'] }
    const shapes = { headers: idempotencyHeaders, body: note, response: { 201: made } }
    notes.post('/notes', { config, schema: { ...schema, ...shapes } }, (request, reply) =>
      withAudit(parts, request, reply, {}, () =>
        idempotent(parts, request, reply, async () => write(request, reply)),
      ),
    )
  })
  url = await app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => {
  await app?.close()
  await parts?.close()
  await gateway?.close()
})

/** A key from a real handshake with the vector gateway. */
async function keyOf(agent: NewAgent): Promise<string> {
  const { privateKeyPem } = await gateway.provision({ tier: 'agent', ...agent })
  const client = createClient({ vectorUrl: gateway.vectorUrl, agentId: agent.agentId, privateKeyPem })
  const key = await client.apiKey()
  await client.close()
  return key
}
const post = (key: string, given: BareCall = {}) =>
  call(url, '/notes', { key, method: 'POST', body: { text: 'hello' }, ...given })

test('a request without a key, or with a wrong one, is 401', async () => {
  expect((await call(url, '/notes', { body: {} })).status).toBe(401)
  expect((await post(`vk_live_${'a'.repeat(43)}`)).json.code).toBe('unauthorized')
})

test('a key of the vector gateway works, the handler sees who calls, and the audit has beginning and end', async () => {
  const key = await keyOf({ agentId: 'reader', access: 'viewer' })
  const requestId = `small-${randomUUID()}`
  const answer = await post(key, { headers: { 'x-request-id': requestId } })
  expect(answer.status).toBe(201)
  expect(answer.json).toMatchObject({ agentId: 'reader', access: 'viewer', tier: 'agent' })
  const events = await eventually('both audit records', async () => {
    const records = await recordsOf(gateway.platform, auditEvents)
    const own = records.filter(({ value }) => value?.request_id === requestId)
    return own.length >= 2 ? own.map(({ value }) => value) : undefined
  })
  const common = { agent_id: 'reader', operation: 'note', collection: null }
  expect(events).toMatchObject([
    { ...common, phase: 'begun' },
    { ...common, phase: 'ended', outcome: 'ok', status_code: 201 },
  ])
})

test('after the burst it is 429 with the limits in headers, and the daily quota does not count', async () => {
  const key = await keyOf({ agentId: 'busy', quota: 1 })
  // In one moment that lasts: a slow machine would never begin as many in a second.
  const clocks = [
    vi.spyOn(Date, 'now').mockReturnValue(Date.now()),
    vi.spyOn(performance, 'now').mockReturnValue(performance.now()),
  ]
  onTestFinished(() => {
    for (const clock of clocks) clock.mockRestore()
  })
  const codes = new Set<unknown>()
  let refused: Answer | undefined
  async function ask(): Promise<void> {
    while (!refused) {
      const answer = await call(url, '/name', { key })
      if (answer.json.code === 'rate_limited') refused = answer
      else codes.add(answer.json.code ?? answer.status)
    }
  }
  await Promise.all([ask(), ask(), ask(), ask()])
  expect(refused).toMatchObject({ status: 429, json: { retryAfter: expect.any(Number) } })
  expect(codes).toContain(200)
  expect(codes).not.toContain('quota_exceeded')
  expect(refused?.headers.get('ratelimit-policy')).toBe(
    '"second";q=50;w=1, "concurrent";q=5;qu="concurrent-requests"',
  )
  expect(refused?.headers.get('ratelimit')).toMatch(/^"second";r=0;t=\d+$/)
  const elsewhere = await call(gateway.vectorUrl, '/v1/vectors/count?collection=posts', { key })
  expect(elsewhere.json.code).toBe('rate_limited')
})

test('the same Idempotency-Key gives the first answer again, and another body is 409', async () => {
  const key = await keyOf({ agentId: 'careful' })
  const headers = { 'idempotency-key': 'once' }
  const first = await post(key, { headers })
  const again = await post(key, { headers })
  expect([again.status, again.json]).toEqual([201, first.json])
  expect((await post(key)).json.number).not.toBe(first.json.number)
  const other = await post(key, { headers, body: { text: 'another' } })
  expect([other.status, other.json.code]).toEqual([409, 'idempotency_conflict'])
  const wrong = await post(key, { headers: { 'idempotency-key': 'a b' } })
  expect([wrong.status, wrong.json.code]).toEqual([422, 'validation_failed'])
  const big = { text: 'x'.repeat(400_000) }
  const large = { headers: { 'idempotency-key': 'large' }, body: big }
  expect((await post(key, large)).json).toEqual((await post(key, large)).json)
})

test('its description has the credential, the codes and the headers of the parts it is made of', async () => {
  const api = JSON.parse((await call(url, '/small/openapi.json')).text) as Described
  const { security, responses } = api.paths['/notes']!.post!
  expect(security).toEqual([{ gatewayKey: [] }])
  const codes = Object.values(responses).flatMap(({ content }) =>
    Object.keys(content['application/problem+json']?.examples ?? {}),
  )
  expect(codes).toEqual(
    expect.arrayContaining([
      'unauthorized',
      'rate_limited',
      'log_unavailable',
      'idempotency_conflict',
      'invalid_json',
    ]),
  )
  // The day's quota does not count here.
  expect(codes).not.toContain('quota_exceeded')
  expect(Object.keys(responses[201]!.headers)).toContain('RateLimit-Policy')
})

interface Described {
  paths: Record<string, Record<string, { security: object[]; responses: Record<string, Answered> }>>
}
interface Answered {
  content: Record<string, { examples?: object }>
  headers: object
}
