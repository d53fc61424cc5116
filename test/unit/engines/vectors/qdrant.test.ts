/** The Qdrant driver beyond the contract: its requests, its failures, and the secrets that it keeps. */

import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { openQdrantVectors, type QdrantVectorsOptions } from '#engines/vectors/qdrant.ts'
import { eventually } from '#test/support/eventually.ts'
import { type FakeQdrant, openFakeQdrant } from '#test/support/qdrant-fake.ts'
import { createRequestCheck } from '#test/support/qdrant-openapi.ts'
import { qdrantVectorsHarness } from '#test/support/qdrant-vectors.ts'
import { upsertOf, vectorOf } from '#test/support/vectors.ts'

const dimension = 16
const opened: VectorStore[] = []
let fake: FakeQdrant
let logged: string[]

beforeEach(async () => {
  fake = await openFakeQdrant()
  logged = []
})
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
  await fake.close()
  expect(fake.faults).toEqual([])
})

async function open(options: Partial<QdrantVectorsOptions> = {}): Promise<VectorStore> {
  const log = pino({ level: 'trace' }, { write: (line: string) => void logged.push(line) })
  const store = await openQdrantVectors({ url: fake.url, collections: ['notes'], dimension, log, ...options })
  opened.push(store)
  return store
}

function upsert(id: string, payload = {}): PointOperation {
  return upsertOf(id, vectorOf(dimension, 1, id.length), payload)
}

function sent(part: string) {
  return fake.requests.filter((request) => `${request.method} ${request.url}`.includes(part))
}

describe('the Qdrant driver', () => {
  test('collections have the HNSW parameters of the specification, copies in memory, and an alias', async () => {
    const store = await open({ collections: ['notes', 'many'], copied: ['many'] })
    await store.ping()
    const hnsw_config = { m: 16, ef_construct: 128 }
    const vectors = { size: dimension, distance: 'Cosine' }
    expect(sent('PUT /collections/notes__g1')[0]!.body).toEqual({
      vectors,
      hnsw_config,
      on_disk_payload: true,
    })
    expect(sent('PUT /collections/many__g1')[0]!.body).toMatchObject({
      vectors: { ...vectors, on_disk: true },
      hnsw_config,
      quantization_config: { scalar: { type: 'int8', always_ram: true } },
    })
    expect(sent('/collections/aliases')[0]!.body!.actions).toEqual([
      { create_alias: { alias_name: 'notes', collection_name: 'notes__g1' } },
      { create_alias: { alias_name: 'many', collection_name: 'many__g1' } },
    ])
  })

  test('answers are asked for uncompressed, writes wait, searches use ef 128 and score by the vectors', async () => {
    const store = await open()
    await store.apply('notes', [upsert('a')])
    await store.search('notes', { vector: vectorOf(dimension, 1), limit: 3 })
    expect(fake.requests.every((request) => request.headers['accept-encoding'] === 'identity')).toBe(true)
    expect(sent('PUT /collections/notes/points?wait=true').length).toBe(1)
    expect(sent('points/query')[0]!.body).toMatchObject({
      params: { hnsw_ef: 128, quantization: { rescore: true } },
    })
  })

  test('ids travel as UUIDs, the same in every run and another in every collection', async () => {
    const store = await open({ collections: ['notes', 'posts'] })
    await store.apply('notes', [upsert('STIDX001-abc')])
    await store.apply('posts', [upsert('STIDX001-abc')])
    const ids = sent('/points?wait=true').map((request) => (request.body!.points[0] as { id: string }).id)
    expect(ids[0]).toBe('2b6c32f0-f5e1-502f-a396-4b8b16554411')
    expect(new Set(ids).size).toBe(2)
  })

  test('a large call goes in batches of 250 points, fewer when they are large', async () => {
    const store = await open()
    await store.apply(
      'notes',
      Array.from({ length: 600 }, (_, i) => upsert(`p${i}`)),
    )
    expect(sent('points?wait').map((request) => request.body!.points.length)).toEqual([250, 250, 100])
    const large = { text: 'x'.repeat(64_000) }
    const values = { list: Array.from({ length: 9_000 }, (_, i) => i) }
    await store.apply('notes', [
      ...Array.from({ length: 100 }, (_, i) => upsert(`large${i}`, large)),
      ...Array.from({ length: 100 }, (_, i) => upsert(`wide${i}`, values)),
    ])
    const bytes = sent('points?wait').map((request) => Number(request.headers['content-length'] ?? 0))
    expect(Math.max(...bytes)).toBeLessThan(32 * 2 ** 20)
    expect(await store.count('notes')).toBe(800)
  })

  test('a batch goes in one request, in which each point has its own condition; one of two epochs in two', async () => {
    const store = await open()
    const at = (id: string, offset: number, epoch = 2) => ({ ...upsert(id), position: { epoch, offset } })
    const offsets = async () =>
      (await store.held('notes', ['a', 'b', 'c'])).map(({ id, position }) => [id, position])
    await store.apply('notes', [at('a', 10), at('b', 1_000)])
    // Offsets of two partitions may lie far apart: one is above all that is held, another below.
    await store.apply('notes', [at('a', 15), at('b', 900), at('c', 5)])
    expect(await offsets()).toEqual([
      ['a', { epoch: 2, offset: 15 }],
      ['b', { epoch: 2, offset: 1_000 }],
      ['c', { epoch: 2, offset: 5 }],
    ])
    await store.apply('notes', [at('a', 14), at('b', 1, 3), at('c', 6)])
    expect(await offsets()).toEqual([
      ['a', { epoch: 2, offset: 15 }],
      ['b', { epoch: 3, offset: 1 }],
      ['c', { epoch: 2, offset: 6 }],
    ])
    const requests = sent('points?wait').map(({ url, body }) => [
      url!.replace(/^.*\//, ''),
      body!.points?.length,
    ])
    expect(requests).toEqual([
      ['points?wait=true', 2],
      ['points?wait=true', 3],
      ['points?wait=true', 2],
      ['points?wait=true', 1],
    ])
  })

  test('collections of a release with fewer indexes get their indexes', async () => {
    const former = await openFakeQdrant()
    onTestFinished(() => former.close())
    const { fillAsFormerly, open: reopen } = await qdrantVectorsHarness(former.url).place()
    await fillAsFormerly([])
    const made = () =>
      former.requests
        .filter(({ url }) => url.includes('/index'))
        .map(({ body }) => body!.field_name)
        .sort()
    expect(made()).toEqual(['tokens', 'tokens'])
    const names = ['deletedAt', 'embedder', 'expiresAt', 'shape', 'tokens', 'tokens', 'updatedAt']
    const all = names.flatMap((name) => [name, name])
    for (let start = 0; start < 2; start++) {
      const store = await reopen()
      await store.ping()
      // That of the words is made again, on disk.
      await eventually('all are made', () => made().length === all.length)
      await store.close()
      expect(made()).toEqual(all)
    }
  })

  test('a collection of a release without copies changes over once, and again after a refusal', async () => {
    const former = await openFakeQdrant()
    onTestFinished(() => former.close())
    const { collections, fillAsFormerly, open: reopen } = await qdrantVectorsHarness(former.url).place()
    await fillAsFormerly([{ id: 'a', vector: vectorOf(64, 1), payload: {} }])
    const changes = () => former.requests.filter(({ method }) => method === 'PATCH')
    const wordsOnDisk = () =>
      former.requests.filter(({ body }) => JSON.stringify(body)?.includes('"keyword","on_disk":true')).length
    const start = async () => {
      const store = await reopen()
      opened.push(store)
      return store.count(collections[0])
    }
    former.failOf('PATCH', 503)
    expect(await start()).toBe(1)
    await eventually('the change is refused', () => changes().length === 1)
    expect(await start()).toBe(1)
    await eventually('it is made', () => changes().length === 2 && wordsOnDisk() === 2)
    expect(changes()[1]!.body).toEqual({
      vectors: { '': { on_disk: true } },
      quantization_config: { scalar: { type: 'int8', always_ram: true } },
    })
    expect(await start()).toBe(1)
    expect([changes().length, wordsOnDisk(), former.faults]).toEqual([2, 2, []])
  })

  test('a signal ends the request to Qdrant, and so does the time limit', async () => {
    const store = await open({ timeoutMs: 50 })
    await store.ping()
    const patient = await open()
    await patient.ping()
    const ending = new AbortController()
    fake.failNext('hang')
    const ended = patient.apply('notes', [upsert('a')], { signal: ending.signal })
    await eventually('the request is there', () => fake.hanging() === 1)
    ending.abort()
    await expect(ended).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
    await eventually('the request is gone', () => fake.hanging() === 0)
    fake.failNext('hang')
    await expect(store.apply('notes', [upsert('a')])).rejects.toMatchObject({
      code: 'vector_engine_unavailable',
    })
    await eventually('the request is gone', () => fake.hanging() === 0)
  })

  test('a Qdrant without conditional writes is refused at the start, and never written to later', async () => {
    const old = await openFakeQdrant('1.15.5')
    onTestFinished(() => old.close())
    await expect(open({ url: old.url })).rejects.toMatchObject({
      code: 'invalid_configuration',
      message: expect.stringContaining('1.15.5'),
    })
    old.failNext(503)
    const store = await open({ url: old.url })
    await expect(store.apply('notes', [upsert('a')])).rejects.toMatchObject({
      code: 'vector_engine_unavailable',
    })
    expect(old.requests.every((request) => request.url === '/')).toBe(true)
    expect(logged.some((line) => line.includes('vectors.qdrant-too-old'))).toBe(true)
    for (const version of ['1.16.0', '1.18.3-dev', '2.0.1']) {
      const newer = await openFakeQdrant(version)
      onTestFinished(() => newer.close())
      await (await open({ url: newer.url })).ping()
    }
  })

  test('it starts while Qdrant is away, fails fast, and goes on when it is there', async () => {
    const store = await open({ url: 'http://127.0.0.1:1' })
    await expect(store.ping()).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
    await expect(store.apply('notes', [upsert('a')])).rejects.toMatchObject({
      code: 'vector_engine_unavailable',
      retryAfter: 1,
    })
    const there = await open()
    fake.failNext(503)
    await expect(there.count('notes')).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
    expect(await there.count('notes')).toBe(0)
  })

  test('a connection that breaks is used again, three times at most', async () => {
    const store = await open()
    await store.ping()
    fake.failNext('break', 'break')
    await store.apply('notes', [upsert('a')])
    expect(await store.count('notes')).toBe(1)
    fake.failNext('break', 'break', 'break')
    await expect(store.count('notes')).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
    expect(await store.count('notes')).toBe(1)
  })

  test('what Qdrant refuses is refused for good; its own text reaches the log alone', async () => {
    const store = await open()
    await store.ping()
    fake.failNext(400)
    const refusal = await store
      .apply('notes', [upsert('a')])
      .catch((error: Error & { code: string }) => error)
    expect(refusal).toMatchObject({ code: 'validation_failed' })
    expect(JSON.stringify(refusal) + (refusal as Error).message).not.toContain('secret internals')
    expect(logged.join()).toContain('secret internals')
  })

  test('the API key travels in its header and appears in no log', async () => {
    const key = 'key-that-nobody-may-read'
    const store = await open({ apiKey: key })
    await store.ping()
    fake.failNext(401, 500, 400)
    for (let i = 0; i < 3; i++) await expect(store.count('notes')).rejects.toThrow()
    expect(fake.requests.every((request) => request.headers['api-key'] === key)).toBe(true)
    expect(logged.length).toBeGreaterThan(0)
    expect(logged.join()).not.toContain(key)
  })

  test('two drivers that start at once make one set of collections', async () => {
    const [one, two] = await Promise.all([open(), open()])
    await Promise.all([one.apply('notes', [upsert('a')]), two.apply('notes', [upsert('b')])])
    expect(await one.count('notes')).toBe(2)
    expect(await two.liveGeneration()).toBe(1)
  })

  test('the check against the description finds faults', () => {
    const check = createRequestCheck()
    const query = { query: [1, 2], limit: 3, with_payload: ['id'], params: { hnsw_ef: 128 } }
    expect(check('POST', '/collections/x/points/query', query)).toEqual([])
    expect(check('POST', '/collections/x/points/query', { ...query, vektor: [1] })).not.toEqual([])
    expect(check('POST', '/collections/x/points/query', { ...query, limit: 'three' })).not.toEqual([])
    expect(check('POST', '/collections/x/points/query?wait=true', query)).not.toEqual([])
    expect(check('POST', '/collections/x/points/seek', query)).not.toEqual([])
  })
})
