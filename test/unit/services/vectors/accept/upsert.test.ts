/** The body of an upsert: accepted forms, and the path of every fault. */

import { expect, test } from 'vitest'
import type { AppError } from '#lib/errors.ts'
import { createBodyThread } from '#runtime/http/json-parser.ts'
import { type ParsedUpsert, parseUpsert } from '#services/vectors/accept/upsert.ts'
import { axisVector } from '../../../../support/points.ts'

const vector = JSON.stringify(axisVector(1))
const bodyOf = (points: string, collection = 'posts') =>
  Buffer.from(`{"collection":${JSON.stringify(collection)},"points":[${points}]}`)
const pointOf = (fields: Partial<Record<'id' | 'vector' | 'payload', string>> = {}) =>
  `{"id":${fields.id ?? '"a"'},"vector":${fields.vector ?? vector},"payload":${fields.payload ?? '{}'}}`

function refusal(body: Buffer): AppError {
  try {
    parseUpsert(body)
  } catch (error) {
    return error as AppError
  }
  throw new Error('the body was accepted')
}

function filled(value: string): string {
  return `[${new Array(1536).fill(value).join(',')}]`
}

test.each([
  ['a wrong dimension', '[1,2,3]'],
  ['no array', '"x"'],
  ['a text among the numbers', `["1",${vector.slice(1, -1).split(',').slice(1).join(',')}]`],
  ['null among the numbers', filled('null')],
  ['1e39, beyond float32', `[1e39,${vector.slice(1, -1).split(',').slice(1).join(',')}]`],
  ['1e999, beyond a double', filled('1e999')],
  ['a norm that overflows', filled('1e38')],
  ['the zero vector', filled('0')],
  ['a norm that vanishes in float32', filled('1e-30')],
])('%s is 422 at the vector of its point', (_what, bad) => {
  const refused = refusal(bodyOf(`${pointOf()},${pointOf({ id: '"b"', vector: bad })}`))
  expect([refused.code, refused.statusCode]).toEqual(['validation_failed', 422])
  expect(refused.errors).toEqual([{ path: '/points/1/vector', message: expect.any(String) }])
})

test.each([
  ['a number', '7'],
  ['empty', '""'],
  ['100,000 characters long', JSON.stringify('x'.repeat(100_000))],
  ['513 characters long', JSON.stringify('👍'.repeat(513))],
  ['with NUL', '"a\\u0000b"'],
])('an id that is %s is 422', (_what, id) => {
  expect(refusal(bodyOf(pointOf({ id }))).errors?.[0]?.path).toBe('/points/0/id')
})

test('half a surrogate pair is 422 with its path', () => {
  expect(refusal(bodyOf(pointOf({ id: '"a\\ud800"' }))).errors?.[0]?.path).toBe('/points/0/id')
  expect(refusal(bodyOf(pointOf({ payload: '{"deep":["\\udc00"]}' }))).errors?.[0]?.path).toBe(
    '/points/0/payload/deep/0',
  )
})

test.each([
  ['no object', '[1]'],
  ['null', 'null'],
  ['over 64 KiB', JSON.stringify({ text: 'x'.repeat(65_530) })],
  ['over 64 KiB in bytes', JSON.stringify({ text: 'é'.repeat(32_768) })],
  ['nested too deep', `{"a":${'['.repeat(30_000)}${']'.repeat(30_000)}}`],
  ['with a number beyond a double', '{"a":[{"b":-1e999}]}'],
])('a payload that is %s is 422', (_what, payload) => {
  expect(refusal(bodyOf(pointOf({ payload }))).errors?.[0]?.path).toBe('/points/0/payload')
})

test('odd but good payloads and ids are kept as they were sent', () => {
  const payload =
    '{"__proto__":{"x":1},"constructor":null,"":"","a.b":[1.5,true],"nul":"\\u0000","sql":"x\' OR 1=1"}'
  const ids = ['__proto__', 'constructor', 'a.b', "x' OR 1=1", '👍'.repeat(512), ' ', 'a/b', '(unknown)']
  const parsed = parseUpsert(bodyOf(ids.map((id) => pointOf({ id: JSON.stringify(id), payload })).join(',')))
  expect(parsed.ids).toEqual(ids)
  expect(parsed.payloads).toEqual(ids.map(() => payload))
})

test('a point without payload has an empty one', () => {
  expect(parseUpsert(bodyOf(`{"id":"a","vector":${vector}}`)).payloads).toEqual(['{}'])
})

test('of an id that comes twice the last point counts', () => {
  const parsed = parseUpsert(
    bodyOf(
      [
        pointOf({ payload: '{"n":1}' }),
        pointOf({ id: '"b"', payload: '{"n":2}' }),
        pointOf({ vector: JSON.stringify(axisVector(5)), payload: '{"n":3}' }),
      ].join(','),
    ),
  )
  expect([parsed.sent, parsed.ids, parsed.payloads]).toEqual([3, ['a', 'b'], ['{"n":3}', '{"n":2}']])
  expect(new Float32Array(parsed.vectors, 0, 1536)[5]).toBe(1)
  expect(new Float32Array(parsed.vectors, 1536 * 4, 1536)[1]).toBe(1)
})

test('unknown keys, no points and too many points are 422', () => {
  expect(
    refusal(Buffer.from(`{"collection":"posts","points":[],"x":1}`)).errors?.map((one) => one.path),
  ).toEqual(['/x', '/points'])
  expect(refusal(bodyOf(`{"id":"a","vector":${vector},"payload":{},"__proto__":1}`)).errors?.[0]?.path).toBe(
    '/points/0/__proto__',
  )
  expect(refusal(bodyOf(new Array(1_001).fill('{}').join(','))).errors).toEqual([
    { path: '/points', message: 'a list of 1 to 1,000 points (a list of 1,001 items was sent)' },
  ])
  expect(refusal(Buffer.from('[]')).statusCode).toBe(422)
  expect(refusal(Buffer.from('{}')).errors).toHaveLength(2)
})

test('a thousand faulty points give a short list', () => {
  expect(refusal(bodyOf(new Array(1_000).fill('{"id":1}').join(','))).errors).toHaveLength(20)
})

test('reserved ids of fleet_notes are 403, and free elsewhere', () => {
  for (const id of ['"audit-1"', '"note-7"']) {
    expect(refusal(bodyOf(pointOf({ id }), 'fleet_notes'))).toMatchObject({
      code: 'reserved_id',
      statusCode: 403,
    })
    expect(parseUpsert(bodyOf(pointOf({ id }), 'posts')).ids).toHaveLength(1)
  }
})

test('the thread answers and refuses as the loop does', async () => {
  const entry = new URL('../../../../../services/vectors/accept/upsert-thread.ts', import.meta.url)
  const thread = createBodyThread<ParsedUpsert>(entry, 'upsert', 2 ** 28)
  try {
    const good = bodyOf(`${pointOf()},${pointOf({ id: '"b"', payload: '{"__proto__":1}' })}`)
    expect(await thread.parse([Buffer.from(good)])).toEqual(parseUpsert(good))
    const bad = bodyOf(pointOf({ vector: '[1]' }))
    const refused = refusal(bad)
    await expect(thread.parse([Buffer.from(bad)])).rejects.toMatchObject({
      code: refused.code,
      statusCode: refused.statusCode,
      errors: refused.errors,
    })
  } finally {
    await thread.close()
  }
})
