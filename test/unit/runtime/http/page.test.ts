import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { Gauge, Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import {
  type ApiDescription,
  createHttpApp,
  createHttpProcess,
  registerApiDescription,
} from '#runtime/http/app.ts'
import { encodingOf } from '#runtime/http/page.ts'

const api: ApiDescription = {
  prefix: '/v1',
  title: 'T',
  description: 'D'.repeat(2_000),
  version: '1',
  tags: [],
}

async function opened(metrics = new Registry(), process = createHttpProcess()) {
  const app = createHttpApp({ name: 'test', log: pino({ level: 'silent' }), metrics, process })
  await registerApiDescription(app, api)
  onTestFinished(() => app.close())
  return app
}

function get(app: FastifyInstance, url: string, headers: Record<string, string> = {}, method = 'GET') {
  return app.inject({ method: method as 'GET', url, headers })
}

const pages = ['/v1/reference/', '/v1/reference/js/scalar.js', '/v1/openapi.json', '/metrics']

test.each(pages)('%s is compressed as the caller takes it, and known by its ETag', async (url) => {
  const metrics = new Registry()
  new Gauge({ name: 'long', help: 'x'.repeat(2_000), registers: [metrics] })
  const app = await opened(metrics)
  const plain = await get(app, url)
  expect([plain.statusCode, plain.headers['content-encoding']]).toEqual([200, undefined])
  const tags = new Set([plain.headers.etag])
  for (const [encoding, decode] of [
    ['br', brotliDecompressSync],
    ['gzip', gunzipSync],
  ] as const) {
    const packed = await get(app, url, { 'accept-encoding': encoding })
    expect(packed.headers['content-encoding']).toBe(encoding)
    expect(packed.headers.vary).toBe('accept-encoding')
    expect(packed.rawPayload.length).toBeLessThan(plain.rawPayload.length)
    expect(decode(packed.rawPayload).equals(plain.rawPayload)).toBe(true)
    const etag = String(packed.headers.etag)
    tags.add(etag)
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await get(app, url, { 'accept-encoding': encoding, 'if-none-match': known })
      expect([again.statusCode, again.body, again.headers.etag]).toEqual([304, '', etag])
    }
    const other = await get(app, url, { 'accept-encoding': encoding, 'if-none-match': '"other"' })
    expect(other.statusCode).toBe(200)
    const head = await get(app, url, { 'accept-encoding': encoding }, 'HEAD')
    expect([head.statusCode, head.body, head.headers.etag]).toEqual([200, '', etag])
    expect(head.headers['content-length']).toBe(String(packed.rawPayload.length))
  }
  expect(tags.size).toBe(3)
})

test.each([
  ['gzip, deflate, br, zstd', 'br'],
  ['GZIP', 'gzip'],
  ['br;q=0, gzip;q=0.5', 'gzip'],
  ['br; q=0.000', 'identity'],
  ['identity', 'identity'],
  ['', 'identity'],
  ['brotli, x', 'identity'],
])('Accept-Encoding %j gets %s', (accepted, encoding) => {
  expect(encodingOf(accepted)).toBe(encoding)
})

test('the reference is made once for all interfaces of a process', async () => {
  const process = createHttpProcess()
  const [one, two] = [await opened(new Registry(), process), await opened(new Registry(), process)]
  await get(one, '/v1/reference/js/scalar.js')
  const made = await process.reference.get('/js/scalar.js')
  await get(two, '/v1/reference/js/scalar.js')
  await get(two, '/v1/reference/js/scalar.js', { 'accept-encoding': 'br' })
  expect(await process.reference.get('/js/scalar.js')).toBe(made)
  expect(await made?.body('br')).toBe(await made?.body('br'))
  expect(process.reference.size).toBe(1)
  expect((await get(one, '/v1/reference')).headers.location).toBe('/v1/reference/')
  const unknown = await get(one, '/v1/reference/js/other.js')
  expect([unknown.statusCode, unknown.json().code]).toEqual([404, 'not_found'])
  expect(process.reference.size).toBe(1)
})

test('metrics are read once for all who ask within a second, at all interfaces', async () => {
  const metrics = new Registry()
  let reads = 0
  new Gauge({ name: 'reads', help: 'h', registers: [metrics], collect: () => void reads++ })
  const process = createHttpProcess()
  const [one, two] = [await opened(metrics, process), await opened(metrics, process)]
  const begun = performance.now()
  const scrapes = Array.from({ length: 40 }, (_, n) => get(n % 2 ? one : two, '/metrics'))
  for (const { statusCode } of await Promise.all(scrapes)) expect(statusCode).toBe(200)
  // On a machine that is busy for seconds there may be one more for each of them.
  expect(reads).toBeLessThanOrEqual(1 + Math.floor((performance.now() - begun) / 1_000))
})

test('an address that asks for pages without end is refused; probes are not', async () => {
  const app = await opened()
  const ask = (url: string) => Promise.all(Array.from({ length: 120 }, () => get(app, url)))
  for (const url of ['/v1/openapi.json', '/metrics']) {
    const answers = await ask(url)
    const refused = answers.filter(({ statusCode }) => statusCode === 429)
    expect(refused.length).toBeGreaterThan(0)
    expect(refused[0]!.json()).toMatchObject({ code: 'rate_limited', retryAfter: expect.any(Number) })
  }
  for (const url of ['/livez', '/readyz']) {
    expect((await ask(url)).every(({ statusCode }) => statusCode === 200)).toBe(true)
  }
})
