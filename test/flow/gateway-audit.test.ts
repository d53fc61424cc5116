/**
 * The gateway's audit of handshakes and vector operations: records in the log, and notes that can
 * be found.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { auditedOperations } from '#client/audit-notes.ts'
import { type Client, withoutAuditNotes } from '#client/client.ts'
import { auditEvents } from '#topics/catalog.ts'
import { auditEvent } from '../support/audit-event.ts'
import { eventually } from '../support/eventually.ts'
import { type BareCall, call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { recordsOf } from '../support/log-reading.ts'
import { axisVector } from '../support/points.ts'

let gateway: GatewayPlatform
let client: Client
let key: string
beforeAll(async () => {
  gateway = await openGatewayPlatform()
  client = await gateway.clientOf('whale')
  key = await client.apiKey()
})
afterAll(() => gateway.close())

const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const send = (path: string, requestId: string, given: BareCall = {}) =>
  call(gateway.vectorUrl, path, {
    key,
    ...given,
    headers: { 'x-request-id': requestId, traceparent: trace, ...given.headers },
  })

/** Both audit records of a request, once the end is written. */
async function auditOf(requestId: string) {
  return eventually(`both records of ${requestId}`, async () => {
    const records = await recordsOf(gateway.platform, auditEvents)
    const own = records.filter((record) => record.value?.request_id === requestId)
    return own.length >= 2 ? own : undefined
  })
}

const vector = axisVector(1)
const good: [string, string, string, BareCall, number][] = [
  [
    'upsert',
    'posts',
    '/v1/vectors/upsert',
    { body: { collection: 'posts', points: [{ id: 'a', vector }] } },
    202,
  ],
  [
    'payload',
    'posts',
    '/v1/vectors/payload',
    { body: { collection: 'posts', ids: ['a'], set: { n: 1 } } },
    202,
  ],
  ['search', 'posts', '/v1/vectors/search', { body: { collection: 'posts', vector } }, 200],
  ['search-pg', 'embeddings', '/v1/vectors/search-pg', { body: { table: 'embeddings', vector } }, 200],
  ['scroll', 'posts', '/v1/vectors/scroll', { body: { collection: 'posts' } }, 200],
  ['count', 'posts', '/v1/vectors/count?collection=posts', {}, 200],
  ['get', 'posts', '/v1/vectors/get?collection=posts&ids=a', {}, 200],
  ['get', 'posts', '/v1/vectors/get', { body: { collection: 'posts', ids: ['a'] } }, 200],
  ['count', 'posts', '/v1/vectors/count', { body: { collection: 'posts' } }, 200],
  [
    'delete',
    'posts',
    '/v1/vectors/delete',
    { method: 'DELETE', body: { collection: 'posts', ids: ['b'] } },
    202,
  ],
]

test.each(good)(
  '%s has a beginning, in the log before its answer, and an end that repeats it',
  async (operation, collection, path, given, status) => {
    const requestId = `good-${operation}`
    expect((await send(path, requestId, given)).status).toBe(status)
    const atAnswer = (await recordsOf(gateway.platform, auditEvents)).filter(
      (one) => one.value?.request_id === requestId,
    )
    expect(atAnswer[0]?.value?.phase).toBe('begun')
    const [begun, ended] = await auditOf(requestId)
    expect(begun!.value).toMatchObject({
      phase: 'begun',
      agent_id: 'whale',
      operation,
      collection,
      outcome: 'unknown',
    })
    expect(ended!.value).toEqual({
      ...begun!.value,
      phase: 'ended',
      outcome: 'ok',
      status_code: status,
      took_ms: expect.any(Number),
    })
    expect([ended!.partition, ended!.key]).toEqual([begun!.partition, 'whale'])
    expect(begun!.headers).toMatchObject({ agent: 'whale', 'request-id': requestId, traceparent: trace })
    expect(ended!.headers['event-id']).not.toBe(begun!.headers['event-id'])
  },
)

const bad: [string, string, BareCall, string, number][] = [
  ['upsert', '/v1/vectors/upsert', { body: '{' }, 'invalid_json', 400],
  [
    'upsert',
    '/v1/vectors/upsert',
    { body: { collection: 'posts', points: [{ id: 'a', vector: [1] }] } },
    'validation_failed',
    422,
  ],
  [
    'upsert',
    '/v1/vectors/upsert',
    { body: 'x', headers: { 'content-type': 'text/plain' } },
    'unsupported_media_type',
    415,
  ],
  ['search', '/v1/vectors/search', { body: { collection: 'nothing', vector } }, 'collection_not_found', 404],
  ['search-pg', '/v1/vectors/search-pg', { body: { table: 'nothing', vector } }, 'table_not_found', 404],
  ['get', '/v1/vectors/get?collection=posts&id=absent', {}, 'point_not_found', 404],
  [
    'payload',
    '/v1/vectors/payload',
    { body: { collection: 'nothing', ids: ['a'], set: { n: 1 } } },
    'collection_not_found',
    404,
  ],
  [
    'delete',
    '/v1/vectors/delete',
    { method: 'DELETE', body: { collection: 'fleet_notes', ids: ['note-1'] } },
    'reserved_id',
    403,
  ],
]

test.each(bad)(
  '%s of %s that fails is audited with its code',
  async (operation, path, given, code, status) => {
    const requestId = `bad-${operation}-${code}`
    expect((await send(path, requestId, given)).status).toBe(status)
    const [, ended] = await auditOf(requestId)
    expect(ended!.value).toMatchObject({ phase: 'ended', operation, outcome: code, status_code: status })
  },
)

test('handshake and verify are audited, refused ones, too', async () => {
  const records = await recordsOf(gateway.platform, auditEvents)
  const own = records.filter(
    (record) => record.value?.agent_id === 'whale' && record.value.collection === null,
  )
  expect(own.map((record) => `${record.value?.operation} ${record.value?.phase}`)).toEqual(
    expect.arrayContaining(['handshake begun', 'handshake ended', 'verify begun', 'verify ended']),
  )
  await send('/v1/auth/verify', 'refused-verify', { body: { agent_id: 'whale', signature: 'zz' } })
  const [, ended] = await auditOf('refused-verify')
  expect(ended!.value).toMatchObject({ operation: 'verify', outcome: 'invalid_signature', status_code: 401 })
  await send('/v1/auth/handshake', 'faulty-handshake', { body: { agent_id: 'whale', nonce: 'x' } })
  expect((await auditOf('faulty-handshake'))[1]!.value?.outcome).toBe('validation_failed')
})

test('a request of no known agent makes no record of its own', async () => {
  await send('/v1/auth/handshake', 'nobody-1', { body: { agent_id: 'nobody', nonce: 'ab'.repeat(8) } })
  await send('/v1/vectors/count?collection=posts', 'nobody-2', { key: `vk_live_${'A'.repeat(43)}` })
  await send('/v1/health', 'nobody-3')
  await send('/v1/embeddings', 'nobody-4', { body: { input: 'x' } })
  const records = await recordsOf(gateway.platform, auditEvents)
  expect(records.filter((record) => record.value?.request_id.startsWith('nobody-'))).toEqual([])
})

test('the audit note of an operation can be found in fleet_notes', async () => {
  const { id } = await eventually('the note of good-search', async () => {
    const must = [{ key: 'request_id', match: { value: 'good-search' } }]
    const { points } = await client.scroll({ collection: 'fleet_notes', filter: { must } })
    return points[0]?.payload?.outcome === 'ok' ? points[0] : undefined
  })
  expect(id).toMatch(/^audit-/)
  const { payload } = await client.get('fleet_notes', id)
  expect(payload).toMatchObject({
    tags: ['auth', 'vector', 'whale'],
    operation: 'search',
    collection: 'posts',
    outcome: 'ok',
    status_code: 200,
  })
})

test('a filter leaves the audit notes of every operation out, and nothing else', async () => {
  const own = { id: 'own', vector: axisVector(7), payload: { tags: ['auth', 'vector'] } }
  await client.upsert('fleet_notes', [own], { wait: true })
  // Written once a minute where requests of several operations were refused.
  const refused = { phase: 'summary', operation: 'several', outcome: 'several', count: 2 } as const
  await gateway.platform.publisher.publish(auditEvents, [{ key: 'scout', value: auditEvent(refused) }])
  for (const value of auditedOperations) {
    const filter = { must: [{ key: 'operation', match: { value } }] }
    await eventually(`a note of ${value}`, async () => (await client.count('fleet_notes', { filter })) > 0)
  }
  const filter = withoutAuditNotes('fleet_notes')!
  const { points } = await client.scroll({ collection: 'fleet_notes', filter })
  expect(points.map(({ id }) => id)).toEqual(['own'])
  expect(await client.count('fleet_notes', { filter })).toBe(1)
})
