/** Requests that are wrong or meant to do harm: each gets a typed answer, and nothing of it is kept. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { type BareCall, call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { holdRequest } from '../support/held-request.ts'
import { recordsOf } from '../support/log-reading.ts'
import { axisVector } from '../support/points.ts'

let gateway: GatewayPlatform
let key: string
beforeAll(async () => {
  gateway = await openGatewayPlatform()
  key = await (await gateway.clientOf('whale')).apiKey()
})
afterAll(() => gateway.close())

const send = (path: string, given: BareCall = {}) => call(gateway.vectorUrl, path, { key, ...given })
const vector = axisVector(1)
const pad = 'x'.repeat(20_000)
const numbers = `[${vector}]`
const firstComponent = (value: string) => `[${[value, ...vector.slice(1)]}]`
const upsertText = (point: string) =>
  `{"collection":"almemsha","points":[{"id":"good","vector":${numbers}},${point}]}`
const pathsOf = (json: Record<string, unknown>) =>
  (json.errors as { path: string }[]).map((error) => error.path)

/** Refused points must be nowhere in the log: `almemsha` is written by no test of this file. */
afterAll(async () => {
  const records = await recordsOf(gateway.platform, vectorsCommands)
  expect(records.filter((record) => record.key.startsWith('almemsha/'))).toEqual([])
})

test.each([
  ['a wrong dimension', '{"id":"b","vector":[1,2,3]}', '/points/1/vector'],
  ['1e39', `{"id":"b","vector":${firstComponent('1e39')}}`, '/points/1/vector'],
  ['NaN as text', `{"id":"b","vector":${firstComponent('"NaN"')}}`, '/points/1/vector'],
  ['a zero vector', `{"id":"b","vector":[${new Array(1536).fill(0)}]}`, '/points/1/vector'],
  ['an overflowing norm', `{"id":"b","vector":[${new Array(1536).fill(3e38)}]}`, '/points/1/vector'],
  ['an id of 100,000 characters', `{"id":"${'x'.repeat(100_000)}","vector":${numbers}}`, '/points/1/id'],
  ['an empty id', `{"id":"","vector":${numbers}}`, '/points/1/id'],
  ['NUL in an id', `{"id":"a\\u0000","vector":${numbers}}`, '/points/1/id'],
  ['half a surrogate pair in an id', `{"id":"\\ud83d","vector":${numbers}}`, '/points/1/id'],
  [
    'half a surrogate pair in a payload key',
    `{"id":"b","vector":${numbers},"payload":{"\\udfff":1}}`,
    '/points/1/payload/\ufffd',
  ],
  [
    'a payload of 64 KiB and more',
    `{"id":"b","vector":${numbers},"payload":{"t":"${'x'.repeat(65_536)}"}}`,
    '/points/1/payload',
  ],
  ['an unknown key', `{"id":"b","vector":${numbers},"score":1}`, '/points/1/score'],
])('an upsert with %s is 422 at its place, small or big', async (_what, point, path) => {
  const small = await send('/v1/vectors/upsert', { body: upsertText(point) })
  expect([small.status, small.json.code, pathsOf(small.json)]).toEqual([422, 'validation_failed', [path]])
  const padded = upsertText(point).replace('"good"', `"good","payload":{"pad":["${'y'.repeat(60_000)}"]}`)
  const big = await send('/v1/vectors/upsert', { body: `${' '.repeat(300 * 1024)}${padded}` })
  expect([big.status, pathsOf(big.json)]).toEqual([422, [path]])
})

test.each([
  ['malformed JSON', '{"collection":"almemsha",', 400, 'invalid_json'],
  [
    'NaN, which JSON has not',
    `{"collection":"almemsha","points":[{"id":"a","vector":[NaN]}]}`,
    400,
    'invalid_json',
  ],
  ['no points', '{"collection":"almemsha","points":[]}', 422, 'validation_failed'],
  [
    'an unknown collection',
    `{"collection":"nothing","points":[{"id":"a","vector":${numbers}}]}`,
    404,
    'collection_not_found',
  ],
  [
    '1,001 points',
    `{"collection":"almemsha","points":[${new Array(1_001).fill('{}')}]}`,
    422,
    'validation_failed',
  ],
  ['an array', '[]', 422, 'validation_failed'],
])('an upsert of %s is refused', async (_what, body, status, code) => {
  const refused = await send('/v1/vectors/upsert', { body })
  expect([refused.status, refused.json.code]).toEqual([status, code])
  expect(refused.headers.get('content-type')).toContain('application/problem+json')
  expect(refused.json.request_id).toBe(refused.headers.get('x-request-id'))
})

test('reserved ids of fleet_notes are 403 for upsert and delete', async () => {
  for (const id of ['audit-0190', 'note-1']) {
    const upsert = await send('/v1/vectors/upsert', {
      body: { collection: 'fleet_notes', points: [{ id, vector }] },
    })
    const gone = await send('/v1/vectors/delete', {
      method: 'DELETE',
      body: { collection: 'fleet_notes', ids: ['x', id] },
    })
    expect([upsert.status, upsert.json.code, gone.status, gone.json.code]).toEqual([
      403,
      'reserved_id',
      403,
      'reserved_id',
    ])
  }
  const records = await recordsOf(gateway.platform, vectorsCommands)
  expect(records.some((record) => record.key === 'fleet_notes/x')).toBe(false)
})

test.each([
  ['no ids', { ids: [] }, '/ids'],
  ['1,001 ids', { ids: Array.from({ length: 1_001 }, (_, n) => `${n}`) }, '/ids'],
  ['an id that is a number', { ids: [7] }, '/ids/0'],
  ['an id that is too long', { ids: ['x'.repeat(513)] }, '/ids/0'],
  ['an id with NUL', { ids: ['a', 'b\0'] }, '/ids/1'],
])('a delete with %s is 422', async (_what, given, path) => {
  const refused = await send('/v1/vectors/delete', {
    method: 'DELETE',
    body: { collection: 'almemsha', ...given },
  })
  expect([refused.status, pathsOf(refused.json)[0]]).toEqual([422, path])
})

test.each([
  ['a short vector', { vector: [1] }, '/vector'],
  ['a zero vector', { vector: new Array(1536).fill(0) }, '/vector'],
  ['limit 0', { limit: 0 }, '/limit'],
  ['limit 1001', { limit: 1_001 }, '/limit'],
  ['a limit as text', { limit: '10' }, '/limit'],
  ['a limit of 1.5', { limit: 1.5 }, '/limit'],
  [
    'a filter on null',
    { filter: { must: [{ key: 'a', match: { value: null } }] } },
    '/filter/must/0/match/value',
  ],
  [
    'a filter on an object',
    { filter: { must: [{ key: 'a', match: { value: {} } }] } },
    '/filter/must/0/match/value',
  ],
  [
    'a filter that must not match null',
    { filter: { must: [], must_not: [{ key: 'a', match: { value: null } }] } },
    '/filter/must_not/0/match/value',
  ],
  ['a filter that is a list', { filter: [] }, '/filter'],
  ['a filter with another list', { filter: { must: [], might: [] } }, '/filter/might'],
  ['a condition without a key', { filter: { must: [{}] } }, '/filter/must/0'],
  ['with_payload as text', { with_payload: 'yes' }, '/with_payload'],
  ['an unknown field', { top: 5 }, '/top'],
  ['a field named __proto__', JSON.parse('{"__proto__":1}') as object, '/__proto__'],
])('a search with %s is 422 at its place', async (_what, given, path) => {
  const body = `{"collection":"posts","vector":${numbers},${JSON.stringify(given).slice(1)}`
  const refused = await send('/v1/vectors/search', {
    body: 'vector' in given ? JSON.stringify({ collection: 'posts', ...given }) : body,
  })
  expect([refused.status, pathsOf(refused.json)]).toEqual([422, [path]])
})

test.each([
  ['/v1/vectors/get', { ids: ['a'], collection: 'nothing' }, 404],
  ['/v1/vectors/get', {}, 422],
  ['/v1/vectors/get', { ids: [] }, 422],
  ['/v1/vectors/get', { ids: 'a' }, 422],
  ['/v1/vectors/get', { ids: [7] }, 422],
  ['/v1/vectors/get', { ids: [''] }, 422],
  ['/v1/vectors/get', { ids: ['a\0b'] }, 422],
  ['/v1/vectors/get', { ids: Array.from({ length: 1_001 }, (_, n) => `${n}`) }, 422],
  ['/v1/vectors/get', { id: 'a' }, 422],
  ['/v1/vectors/count', { collection: 'nothing' }, 404],
  ['/v1/vectors/count', { filter: '{}' }, 422],
  ['/v1/vectors/count', { filter: { must: {} } }, 422],
  ['/v1/vectors/count', { x: 1 }, 422],
])('POST %s with %j is %i', async (path, given, status) => {
  const refused = await send(path, { body: { collection: 'posts', ...given } })
  expect([refused.status, refused.json.code]).toEqual([
    status,
    status === 404 ? 'collection_not_found' : 'validation_failed',
  ])
})

test('numbers that no float32 or double holds are refused in searches', async () => {
  const text = (more: string, first = '1') =>
    `{"collection":"posts","vector":${firstComponent(first)}${more}}`
  for (const body of [text('', '1e39'), text(',"score_threshold":1e999')]) {
    expect((await send('/v1/vectors/search', { body })).status).toBe(422)
  }
})

test.each([
  ['/v1/vectors/count?collection=nothing', 404, 'collection_not_found'],
  ['/v1/vectors/count', 422, 'validation_failed'],
  ['/v1/vectors/count?collection=posts&collection=posts', 422, 'validation_failed'],
  ['/v1/vectors/count?collection=posts&filter=%7B', 422, 'validation_failed'],
  ['/v1/vectors/count?collection=posts&filter=%5B%5D', 422, 'validation_failed'],
  [
    `/v1/vectors/count?collection=posts&filter=${encodeURIComponent('{"must":[{"key":"\\ud800","match":{"value":1}}]}')}`,
    422,
    'validation_failed',
  ],
  ['/v1/vectors/count?collection=posts&x=1', 422, 'validation_failed'],
  ['/v1/vectors/get?collection=posts', 422, 'validation_failed'],
  ['/v1/vectors/get?collection=posts&id=a&ids=b', 422, 'validation_failed'],
  ['/v1/vectors/get?collection=posts&id=a&id=b', 422, 'validation_failed'],
  ['/v1/vectors/get?collection=posts&id=', 422, 'validation_failed'],
  ['/v1/vectors/get?collection=posts&id=a%00b', 422, 'validation_failed'],
  [`/v1/vectors/get?collection=posts&id=${'x'.repeat(30_000)}`, 422, 'validation_failed'],
  ['/v1/vectors/get?collection=posts&id=absent', 404, 'point_not_found'],
  ['/v1/operations/%20', 400, 'invalid_operation_id'],
  ['/v1/nothing', 404, 'not_found'],
  ['/v1/vectors/upsert', 405, 'method_not_allowed'],
])('GET %s is refused', async (path, status, code) => {
  const refused = await send(path)
  expect([refused.status, refused.json.code]).toEqual([status, code])
})

test('a body above the limit is 413, also when its length is not announced', async () => {
  const search = await send('/v1/vectors/search', { body: `"${'x'.repeat(1_100_000)}"` })
  expect([search.status, search.json.code]).toEqual([413, 'payload_too_large'])
  const upsert = await fetch(new URL('/v1/vectors/upsert', gateway.vectorUrl), {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: new Blob([`"${'x'.repeat(65 * 1024 * 1024)}"`]).stream(),
    duplex: 'half',
  } as RequestInit).then(
    (answer) => answer.status,
    // The gateway may cut the connection while the rest is still being sent.
    () => 413,
  )
  expect(upsert).toBe(413)
})

test('uploads that announce much and send one byte keep nobody from uploading, and end', async () => {
  const keys = await Promise.all(
    ['hoarder-1', 'hoarder-2'].map(async (agentId) => (await gateway.clientOf(agentId)).apiKey()),
  )
  const held = keys.flatMap((hoarder) =>
    Array.from({ length: 5 }, () =>
      holdRequest(gateway.vectorUrl, hoarder, {
        ...{ path: '/v1/vectors/upsert', length: 64 * 1024 * 1024, sent: '{' },
      }),
    ),
  )
  const points = Array.from({ length: 40 }, (_, n) => ({
    id: `p${n}`,
    vector: new Array(1536).fill(0.1 + n),
  }))
  const body = {
    collection: 'knowledgebase',
    points: points.map((point) => ({ ...point, payload: { pad } })),
  }
  // Until the gateway has taken them.
  await sleep(1_000)
  expect((await send('/v1/vectors/upsert', { body })).status).toBe(202)
  await vi.waitFor(() => expect(held.map((one) => one.status())).toEqual(new Array(10).fill(408)), 60_000)
  for (const one of held) one.drop()
})

test('other content types are 415', async () => {
  const refused = await send('/v1/vectors/search', { body: '{}', headers: { 'content-type': 'text/plain' } })
  expect([refused.status, refused.json.code]).toEqual([415, 'unsupported_media_type'])
})

test('after all of it the gateway serves', async () => {
  expect((await send('/v1/vectors/search', { body: { collection: 'posts', vector } })).status).toBe(200)
})
