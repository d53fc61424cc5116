/** Points that are written over gRPC: next to others over REST, and on a server that refuses, goes silent or is away. */

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { openGrpc } from '#engines/vectors/qdrant/grpc.ts'
import { createPointIds, type QdrantPoint } from '#engines/vectors/qdrant/writer.ts'
import { openQdrantVectors, type QdrantVectorsOptions } from '#engines/vectors/qdrant.ts'
import { type OwnQdrant, openOwnQdrant } from '#test/support/distributed-qdrant.ts'
import { eventually } from '#test/support/eventually.ts'
import { projectFolder } from '#test/support/pages.ts'
import { openSilentProxy } from '#test/support/silent-proxy.ts'
import { deleteOf, randomVector, upsertOf } from '#test/support/vectors.ts'
import { freePort } from '../../scripts/servers/children.ts'
import { findQdrant } from '../../scripts/servers/qdrant.ts'

const dimension = 64
const apiKey = 'of-this-qdrant'
const away = { code: 'vector_engine_unavailable' }

let qdrant: OwnQdrant
let lines: Record<string, unknown>[]
beforeEach(() => {
  lines = []
})
const log = () => pino({}, { write: (line: string) => lines.push(JSON.parse(line)) })

async function openStore(options: Partial<QdrantVectorsOptions> = {}) {
  const { url, grpcUrl } = qdrant
  const collections = options.collections ?? [`t${randomBytes(6).toString('hex')}`]
  const all = { url, grpcUrl, apiKey, dimension, log: log(), ...options, collections }
  const store = await openQdrantVectors(all)
  onTestFinished(() => store.close())
  await store.ping(60_000)
  return { store, name: collections[0]! }
}

function upserts(count: number, prefix = 'p', payload: object = {}) {
  return Array.from({ length: count }, (_, n) =>
    upsertOf(`${prefix}${n}`, randomVector(dimension, n + 1), payload),
  )
}

describe.skipIf(findQdrant() === null)('points over gRPC', () => {
  beforeAll(async () => {
    qdrant = (await openOwnQdrant({ apiKey }))!
  })
  afterAll(() => qdrant?.kill9())

  test('a point is kept the same whichever way it was written, its deletion, too', async () => {
    const { store: over, name } = await openStore({ grpcPointsMin: 1 })
    const { store: rest } = await openStore({ collections: [name], grpcPointsMin: 1e6 })
    const kept = async (operation: PointOperation, by: VectorStore) => {
      await by.apply(name, [operation])
      const path = `${qdrant.url}/collections/${name}/points/${createPointIds(name)(operation.id)}`
      const answer = await fetch(path, { headers: { 'api-key': apiKey } })
      const { payload, vector } = ((await answer.json()) as { result: QdrantPoint }).result
      return {
        vector,
        ...payload,
        offset: typeof payload.offset,
        deletedAt: typeof Object(payload).deletedAt,
      }
    }
    const payload = {
      text: 'Ünïcödé 😀 \u0000 \\ "quoted"',
      numbers: [0, -0, 1.0, 1.5, -3, 2 ** 53, 1e18, 1e19, 1e21, 1e300, 5e-324],
      nested: { deep: [{ a: null }, [], {}, true, ''], __proto__: 1, empty: {} },
      updated_at: '2026-01-02T03:04:05.678901Z',
      nothing: null,
      'key.with.dots': 'x',
    }
    const vector = randomVector(dimension, 9).map((one, n) => (n % 7 === 0 ? one * 1e-9 : one))
    const made = () => ({ ...upsertOf('a', vector, payload), embedder: 'e', expiresAt: 4e12 })
    expect(await kept(made(), over)).toEqual(await kept(made(), rest))
    const deleted = await kept(deleteOf('a'), over)
    expect(deleted).toMatchObject({ deletedAt: 'number' })
    expect(deleted).toEqual(await kept(deleteOf('a'), rest))
  })

  test('writers of both ways leave each point at its newest record', async () => {
    const { store: over, name } = await openStore({ grpcPointsMin: 1 })
    const { store: rest } = await openStore({ collections: [name], grpcPointsMin: 1e6 })
    const rounds = Array.from({ length: 12 }, (_, round) => upserts(40, 'p', { round }))
    // Each writer begins with the other end, so half of the writes come late, and some of a request's points.
    await Promise.all([
      (async () => {
        for (const operations of rounds) await over.apply(name, operations)
      })(),
      (async () => {
        for (const operations of rounds.toReversed()) await rest.apply(name, operations)
      })(),
    ])
    const late = [...rounds[3]!.slice(0, 20), ...upserts(40, 'p', { round: 99 }).slice(20)]
    await over.apply(name, late)
    const found = await rest.get(
      name,
      rounds[0]!.map(({ id }) => id),
    )
    expect(found.map((point) => point.payload.round)).toEqual(
      Array.from({ length: 40 }, (_, n) => (n < 20 ? 11 : 99)),
    )
  })

  test('a request of many megabytes is taken as it is over REST', async () => {
    const { store, name } = await openStore()
    // Below the limit of a batch by its JSON, and far above the 4 MiB that servers of gRPC take by default.
    await store.apply(name, upserts(200, 'p', { text: 'x'.repeat(35_000) }))
    expect(await store.count(name)).toBe(200)
    expect(lines).toEqual([])
  })

  test('few points go over REST; where gRPC is away the many wait, and log and ping name its setting', async () => {
    const grpcUrl = `http://127.0.0.1:${await freePort()}`
    const opening = openStore({ grpcUrl })
    await expect(opening).rejects.toMatchObject({ ...away, setting: 'QDRANT_GRPC_URL' })
    const name = `t${randomBytes(6).toString('hex')}`
    const store = await openQdrantVectors({
      ...{ url: qdrant.url, grpcUrl, apiKey, dimension },
      ...{ collections: [name], log: log() },
    })
    onTestFinished(() => store.close())
    await store.apply(name, upserts(15))
    await expect(store.apply(name, upserts(16))).rejects.toMatchObject(away)
    expect(await store.count(name)).toBe(15)
    expect(lines.filter(({ call }) => call === 'upsert by gRPC')).toEqual([
      expect.objectContaining({
        msg: 'vectors.qdrant-failed',
        hint: expect.stringContaining('QDRANT_GRPC_URL'),
        cause: expect.stringContaining('ECONNREFUSED'),
      }),
    ])
  })

  test('a refused key, a missing collection and a vector of another size are three faults', async () => {
    const open = (key: string) => {
      const grpc = openGrpc({ url: qdrant.grpcUrl, apiKey: key, limitMs: 20_000, log: log() })
      onTestFinished(() => grpc.close())
      return grpc
    }
    const { name } = await openStore()
    const point = (length: number) => ({
      id: createPointIds(name)('a'),
      vector: randomVector(length, 1),
      payload: { id: 'a', epoch: 1, offset: 1, deletedAt: 1 },
    })
    await expect(open('wrong-key').send(name, [point(dimension)])).rejects.toMatchObject({
      ...away,
      cause: { status: 401 },
    })
    const grpc = open(apiKey)
    await expect(grpc.send('nowhere', [point(dimension)])).rejects.toMatchObject({
      name: 'CollectionMissing',
    })
    await expect(grpc.send(name, [point(dimension + 1)])).rejects.toMatchObject({
      code: 'validation_failed',
    })
    await grpc.send(name, [point(dimension)])
    expect(JSON.stringify(lines)).not.toMatch(/wrong-key|of-this-qdrant/)
  })

  test('an address that speaks something else is an engine that is away, at once', async () => {
    const { store, name } = await openStore()
    expect(await store.count(name)).toBe(0)
    const grpc = openGrpc({ url: qdrant.url, apiKey, limitMs: 600_000, log: log() })
    onTestFinished(() => grpc.close())
    await expect(grpc.ping(name)).rejects.toMatchObject(away)
  })

  test('a server that was killed in the midst of writes gets them all when it is back', async () => {
    const { store, name } = await openStore({ timeoutMs: 5_000 })
    const operations = upserts(2_000)
    const writing = store.apply(name, operations).then(
      () => 'written',
      (error: unknown) => error,
    )
    await qdrant.kill9()
    const outcome = await writing
    if (outcome !== 'written') expect(outcome).toMatchObject(away)
    await expect(store.apply(name, operations)).rejects.toMatchObject(away)
    await qdrant.start()
    await eventually('all are written', async () => {
      await store.apply(name, operations).catch(() => {})
      return (await store.count(name).catch(() => 0)) === operations.length
    })
  })

  test('a connection that goes silent is replaced before the time limit of a call', async () => {
    const proxy = await openSilentProxy(() => Number(new URL(qdrant.grpcUrl).port))
    onTestFinished(() => proxy.close())
    const { store, name } = await openStore({
      grpcUrl: `http://127.0.0.1:${proxy.port}`,
      timeoutMs: 600_000,
    })
    await store.apply(name, upserts(20))
    const silence = proxy.silence('open')
    await store.apply(name, upserts(30))
    await silence.end('is lost')
    expect(await store.count(name)).toBe(30)
  })

  test('a slow server ends a call by its time limit, and a signal ends it at once', async () => {
    const proxy = await openSilentProxy(() => Number(new URL(qdrant.grpcUrl).port))
    onTestFinished(() => proxy.close())
    const grpcUrl = `http://127.0.0.1:${proxy.port}`
    const { store: short, name } = await openStore({ grpcUrl, timeoutMs: 500 })
    const { store: long } = await openStore({ collections: [name], grpcUrl, timeoutMs: 600_000 })
    const silence = proxy.silence('all')
    await expect(short.apply(name, upserts(20))).rejects.toMatchObject(away)
    const signal = AbortSignal.timeout(100)
    await expect(long.apply(name, upserts(20), { signal })).rejects.toMatchObject(away)
    const late = expect(long.apply(name, upserts(20))).rejects.toMatchObject(away)
    await long.close()
    await late
    await silence.end('is lost')
  })

  test('a process whose store is closed ends by itself', async () => {
    const { name } = await openStore()
    const options = { url: qdrant.url, grpcUrl: qdrant.grpcUrl, apiKey, collections: [name], dimension }
    const script = `
      const { openQdrantVectors } = await import('#engines/vectors/qdrant.ts')
      const log = { info() {}, warn() {}, error() {} }
      const store = await openQdrantVectors({ ...${JSON.stringify(options)}, log })
      const operations = Array.from({ length: 20 }, (_, n) => ({ kind: 'upsert', id: 'p' + n, payload: {},
        position: { epoch: 1, offset: n }, vector: new Float32Array(${dimension}).fill(1) }))
      await store.apply('${name}', operations)
      await store.close()
      console.log(await store.count('${name}').catch(({ code }) => code))`
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--no-warnings', '--input-type=module', '-e', script],
      { cwd: projectFolder, timeout: 60_000 },
    )
    expect(stdout).toBe('shutting_down\n')
  })
})
