/** Large answers of the vector gateway: scrolls end by bytes; search, get and search-pg answer whole, piece by piece. */

import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Client } from '#client/client.ts'
import {
  answers,
  answersBytesMax,
  callerBytesMax,
  heldBytesPerPiece,
  pageBytesMax,
} from '#runtime/http/answers.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { axisVector } from '../support/points.ts'

const count = 120
const collection = 'knowledgebase'
// Some texts double as JSON, some are small.
const textOf = (n: number) => (n % 10 === 0 ? 'small' : n % 2 === 0 ? '"'.repeat(31_000) : 'é'.repeat(31_000))
const payloadOf = (n: number) => ({ n, even: n % 2 === 0, text: textOf(n) })
const idOf = (n: number) => `p${String(n).padStart(3, '0')}`
const ids = Array.from({ length: count }, (_, n) => idOf(n))

let gateway: GatewayPlatform
let client: Client
let key: string
beforeAll(async () => {
  gateway = await openGatewayPlatform({}, { mirror: true })
  // Its first use makes its tables, which takes longer than a request may wait.
  await gateway.platform.engines.mirror.prepare()
  client = await gateway.clientOf('whale')
  key = await client.apiKey()
  const points = ids.map((id, n) => ({ id, vector: axisVector(0, n / count), payload: payloadOf(n) }))
  await client.upsert(collection, points, { wait: true })
}, 240_000)
afterAll(() => gateway?.close())

const post = (path: string, body: object) =>
  call(gateway.vectorUrl, `/v1/vectors/${path}`, { key, body: { collection, ...body } })

test('a scroll ends at 4 MiB, and its offsets lead to every point once', async () => {
  for (const given of [
    {},
    { with_vector: true },
    { filter: { must: [{ key: 'even', match: { value: true } }] } },
  ]) {
    const seen: { id: string; payload: object; vector?: number[] }[] = []
    for (let offset: string | null | undefined; offset !== null; ) {
      const body = { limit: 1_000, ...given, ...(offset === undefined ? {} : { offset }) }
      const { status, text, json } = await post('scroll', body)
      expect([status, Object.keys(json), Buffer.byteLength(text) <= pageBytesMax]).toEqual([
        200,
        ['points', 'next_offset'],
        true,
      ])
      const points = json.points as typeof seen
      expect(points.length).toBeGreaterThan(0)
      seen.push(...points)
      offset = json.next_offset as string | null
      if (offset !== null) expect(Buffer.byteLength(text)).toBeGreaterThan(pageBytesMax - 2 ** 18)
    }
    const wanted = ids.filter((_, n) => !('filter' in given) || n % 2 === 0)
    expect(seen.map(({ id }) => id)).toEqual(wanted)
    expect(
      seen.every(
        ({ id, payload }) => JSON.stringify(payload) === JSON.stringify(payloadOf(Number(id.slice(1)))),
      ),
    ).toBe(true)
    expect(seen.every(({ vector }) => vector?.length === ('with_vector' in given ? 1_536 : undefined))).toBe(
      true,
    )
  }
  const ofClient: string[] = []
  for await (const { id } of client.scrollAll({ collection, limit: 1_000 })) ofClient.push(id)
  expect(ofClient).toEqual(ids)
})

test('a limit ends a scroll as well', async () => {
  const { json } = await post('scroll', { limit: 50 })
  expect([(json.points as object[]).length, json.next_offset]).toEqual([50, idOf(50)])
})

test('a search answers whole, in its order, with the fields asked for', async () => {
  for (const given of [
    {},
    { with_vector: true },
    { with_payload: false },
    { with_payload: false, with_vector: true },
  ]) {
    const { json, headers } = await post('search', { vector: axisVector(0), limit: 1_000, ...given })
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(Object.keys(json)).toEqual(['results', 'took_ms', 'records_scanned'])
    const results = json.results as { id: string; score: number; payload?: object; vector?: number[] }[]
    expect(results.map(({ id }) => id)).toEqual(ids)
    expect(results.map(({ score }) => score)).toEqual(
      results.map(({ score }) => score).toSorted((a, b) => b - a),
    )
    const isBare = 'with_payload' in given
    expect(results.map(({ payload }) => payload)).toEqual(
      ids.map((_, n) => (isBare ? undefined : payloadOf(n))),
    )
    expect(
      results.every(({ vector }) => vector?.length === ('with_vector' in given ? 1_536 : undefined)),
    ).toBe(true)
  }
})

test('search-pg answers whole', async () => {
  const body = {
    table: 'embeddings',
    vector: axisVector(0),
    limit: 1_000,
    filter_sql: "collection = 'knowledgebase'",
  }
  const { json, text } = await eventually('the mirror has all', async () => {
    const answer = await call(gateway.vectorUrl, '/v1/vectors/search-pg', { key, body })
    return (answer.json.results as object[] | undefined)?.length === count ? answer : undefined
  })
  expect(Object.keys(json)).toEqual(['results', 'took_ms', 'records_scanned'])
  const results = json.results as { id: string; payload: object }[]
  expect(results.map(({ id }) => id)).toEqual(ids)
  expect(results[7]!.payload).toEqual(payloadOf(7))
  expect(Buffer.byteLength(text)).toBeGreaterThan(pageBytesMax)
})

test('get answers all ids and the missing ones', async () => {
  const asked = [...ids, 'gone', ...ids.slice(0, 3)].toReversed()
  const query = asked.map((id) => `ids=${id}`).join('&')
  const { json } = await call(gateway.vectorUrl, `/v1/vectors/get?collection=${collection}&${query}`, { key })
  expect(Object.keys(json)).toEqual(['points', 'missing'])
  const points = json.points as { id: string; payload: object; vector: number[] }[]
  expect(points.map(({ id }) => id)).toEqual([...new Set(asked)].filter((id) => id !== 'gone'))
  expect(
    points.every(
      ({ id, payload }) => JSON.stringify(payload) === JSON.stringify(payloadOf(Number(id.slice(1)))),
    ),
  ).toBe(true)
  expect(json.missing).toEqual(['gone'])
})

test('readers that take nothing hold pieces, and give them back when they leave', async () => {
  const { hostname, port } = new URL(gateway.vectorUrl)
  const socket = connect(Number(port), hostname)
  const scroll = JSON.stringify({ collection, limit: 1_000 })
  const search = JSON.stringify({ collection, limit: 1_000, vector: axisVector(0) })
  for (const [path, body] of [
    ['scroll', scroll],
    ['search', search],
    ['scroll', scroll],
    ['search', search],
  ]) {
    socket.write(
      `POST /v1/vectors/${path} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body!.length}\r\n\r\n${body}`,
    )
  }
  await once(socket, 'readable')
  await eventually('all have begun', () => answers.heldBytes() > 2 * heldBytesPerPiece)
  expect(answers.heldBytes()).toBeLessThanOrEqual(4 * heldBytesPerPiece)
  socket.destroy()
  await eventually('the budget is free', () => answers.heldBytes() === 0)
})

test('a full budget is 503 with retryAfter for large answers, and small searches go on', async () => {
  const callers = Array.from({ length: answersBytesMax / callerBytesMax }, (_, n) => `caller ${n}`)
  const releases = await Promise.all(callers.map((caller) => answers.take(caller, callerBytesMax)))
  const refused = await Promise.all([
    post('scroll', { limit: 1_000 }),
    post('search', { limit: 1_000, vector: axisVector(0) }),
  ])
  for (const { status, json } of refused) {
    expect([status, json.code, json.retryAfter]).toEqual([503, 'overloaded', 1])
  }
  const filter = { must: [{ key: 'n', match: { value: 10 } }] }
  expect((await post('search', { limit: 10, vector: axisVector(0), filter })).status).toBe(200)
  for (const release of releases) release()
  expect((await post('scroll', { limit: 1_000 })).status).toBe(200)
})
