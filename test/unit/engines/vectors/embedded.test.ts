/** The embedded vector engine beyond the contract: its files, its order, its fallback, its kills. */

import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { pino } from 'pino'
import { afterEach, describe, expect, test } from 'vitest'
import { type EmbeddedVectorsOptions, openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import {
  clusteredVectors,
  createRandom,
  deleteOf,
  upsertOf as upsert,
  vectorOf,
} from '#test/support/vectors.ts'
import { expectNothingLost } from '#test/support/vectors-kills.ts'

const dimension = 32
const opened: VectorStore[] = []

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
})

async function open(directory: string, options: Partial<EmbeddedVectorsOptions> = {}) {
  const logged: string[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void logged.push(line) })
  const store = await openEmbeddedVectors({ directory, collections: ['a', 'b'], dimension, log, ...options })
  opened.push(store)
  const built = () => logged.filter((line) => line.includes('vectors.index-built')).length
  return { store, logged, built }
}

const few = clusteredVectors({ count: 300, dimension, seed: 11 })
const fewPoints = few.map((vector, i) => upsert(`p${i}`, vector, { i, mod: i % 3 }))

describe('the embedded vector engine', () => {
  test('a clean stop is followed by no rebuild; a missing or wrong mark of it is', async () => {
    const directory = temporaryFolder()
    const first = await open(directory)
    await first.store.apply('a', fewPoints)
    await first.store.close()
    const second = await open(directory)
    expect(second.built()).toBe(0)
    expect(await second.store.count('a', { must: [{ key: 'mod', match: { value: 1 } }] })).toBe(100)
    await second.store.close()
    rmSync(join(directory, 'index', 'CLEAN'))
    const third = await open(directory)
    expect(third.built()).toBeGreaterThan(0)
    const began = third.logged.find((line) => line.includes('vectors.index-building'))
    expect(JSON.parse(began!)).toMatchObject({ collection: 'a-1', points: 0, total: 300 })
    await third.store.close()
    writeFileSync(join(directory, 'index', 'CLEAN'), '{"indexes":{"a-1":{"fol')
    const fourth = await open(directory)
    expect(fourth.built()).toBeGreaterThan(0)
    const { hits } = await fourth.store.search('a', { vector: few[7]!, limit: 1 })
    expect(hits[0]!.id).toBe('p7')
    expect(await fourth.store.count('a', { must: [{ key: 'mod', match: { value: 1 } }] })).toBe(100)
  })

  test('what the exact driver writes in between is in the index afterwards', async () => {
    const directory = temporaryFolder()
    const first = await open(directory)
    await first.store.apply('a', fewPoints)
    await first.store.close()
    const log = pino({ level: 'silent' })
    const exact = await openEmbeddedVectors({
      directory,
      collections: ['a', 'b'],
      dimension,
      log,
      index: 'exact',
    })
    await exact.apply('a', [upsert('p0', vectorOf(dimension, 5), { mod: 'new' })])
    await exact.close()
    const second = await open(directory)
    expect((await second.store.search('a', { vector: vectorOf(dimension, 1), limit: 1 })).hits[0]!.id).toBe(
      'p0',
    )
    expect(await second.store.count('a', { must: [{ key: 'mod', match: { value: 'new' } }] })).toBe(1)
  })

  test('where the native index cannot be loaded it says so and compares with every point', async () => {
    const { store, logged } = await open(temporaryFolder(), { nativeModule: '@zvec/not-there' })
    expect(store.driver).toBe('exact')
    expect(logged.some((line) => line.includes('vectors.no-native-index'))).toBe(true)
    await store.apply('a', fewPoints)
    expect((await store.search('a', { vector: few[9]!, limit: 1 })).hits[0]!.id).toBe('p9')
  })

  test('a relative folder works, and folders of dropped indexes do not stay', async () => {
    const directory = temporaryFolder()
    const { store } = await open(relative(process.cwd(), directory))
    for (const generation of [2, 3]) {
      await store.createGeneration(generation)
      await store.apply('a', fewPoints, { generation })
      await store.promoteGeneration(generation)
    }
    await eventually('one folder a collection', () => {
      const names = readdirSync(join(directory, 'index'))
      return names.filter((name) => name.startsWith('a-') || name.startsWith('b-')).length === 2
    })
  })

  test('a stop in the middle of a merge neither waits for it nor loses anything, and the next start is clean', async () => {
    const directory = temporaryFolder()
    const { store } = await open(directory, { dimension: 512 })
    const vectors = clusteredVectors({ count: 4000, dimension: 512, seed: 23 })
    await store.apply(
      'a',
      vectors.map((vector, i) => upsert(`p${i}`, vector)),
    )
    const ofA = async (of: VectorStore) => (await of.stats()).find((each) => each.collection === 'a')!
    await eventually('a merge runs', async () => (await ofA(store)).status === 'indexing')
    await store.close()
    const again = await open(directory, { dimension: 512 })
    expect(again.built()).toBe(0)
    await eventually('a merge is done', async () => (await ofA(again.store)).indexedShare === 1, 150_000)
    const { hits } = await again.store.search('a', { vector: vectors[1234]!, limit: 1 })
    expect(hits[0]!.id).toBe('p1234')
    expect(await again.store.count('a')).toBe(4000)
    await again.store.close()
    const third = await open(directory, { dimension: 512 })
    expect(third.built()).toBe(0)
    expect((await ofA(third.store)).indexedShare).toBe(1)
  }, 180_000)

  test('another dimension on the same files is refused', async () => {
    const directory = temporaryFolder()
    await (await open(directory)).store.close()
    await expect(open(directory, { dimension: 16 })).rejects.toMatchObject({ code: 'invalid_configuration' })
  })

  test('calls for one id apply in the order in which they were made, without waiting for each other', async () => {
    const { store } = await open(temporaryFolder())
    const vector = vectorOf(dimension, 1)
    await Promise.all(Array.from({ length: 60 }, (_, n) => store.apply('a', [upsert('x', vector, { n })])))
    expect((await store.get('a', ['x']))[0]!.payload.n).toBe(59)
  })

  test('a signal ends a call that waits for others; what it wrote after all takes nothing back', async () => {
    const { store } = await open(temporaryFolder())
    const many = Array.from({ length: 3000 }, (_, i) => upsert(`p${i}`, few[i % 300]!, { round: 1 }))
    const writing = store.apply('a', many)
    const ending = new AbortController()
    const older = upsert('p0', few[0]!, { round: 2 })
    const newer = upsert('p0', few[0]!, { round: 3 })
    const ended = store.apply('a', [older], { signal: ending.signal })
    ending.abort()
    await expect(ended).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
    await store.apply('a', [newer])
    await store.apply('a', [older])
    await writing
    expect((await store.get('a', ['p0']))[0]!.payload.round).toBe(3)
  })

  test('a search that comes after a large write is answered long before it', async () => {
    const { store } = await open(temporaryFolder())
    await store.apply('a', fewPoints)
    const many = Array.from({ length: 5000 }, (_, i) => upsert(`new ${i}`, few[i % 300]!, { i }))
    let written = false
    const writing = store.apply('b', many).then(() => {
      written = true
    })
    for (let i = 0; i < 5; i++) {
      const { hits } = await store.search('a', { vector: few[i]!, limit: 1 })
      expect(hits[0]!.id).toBe(`p${i}`)
    }
    expect(written).toBe(false)
    await writing
    expect(await store.count('b')).toBe(5000)
  })

  test('the index and the oracle agree through writes, overwrites, deletes and a clean stop', async () => {
    const folders = [temporaryFolder(), temporaryFolder()] as const
    const random = createRandom(17)
    const vectors = clusteredVectors({ count: 1200, dimension, clusters: 20, seed: 4 })
    for (let round = 0; round < 3; round++) {
      const [index, oracle] = [
        (await open(folders[0])).store,
        (await open(folders[1], { index: 'exact' })).store,
      ]
      for (let batch = 0; batch < 6; batch++) {
        const operations = Array.from({ length: 120 }, (): PointOperation => {
          const id = `p${Math.floor(random() * 500)}`
          if (random() < 0.25) return deleteOf(id)
          const mod = Math.floor(random() * 4)
          return upsert(id, vectors[Math.floor(random() * vectors.length)]!, { mod, tags: [mod, 'all'] })
        })
        await Promise.all([index.apply('a', operations), oracle.apply('a', operations)])
      }
      let agreed = 0
      let wanted = 0
      for (let i = 0; i < 40; i++) {
        const filter = i % 2 === 0 ? {} : { filter: { must: [{ key: 'tags', match: { value: i % 4 } }] } }
        const query = { vector: vectors[i * 7]!, limit: 10, ...filter }
        const [found, exact] = await Promise.all([index.search('a', query), oracle.search('a', query)])
        const ids = new Set(found.hits.map((hit) => hit.id))
        wanted += exact.hits.length
        agreed += exact.hits.filter((hit) => ids.has(hit.id)).length
        expect(found.eligible).toBe(exact.eligible)
        expect(await index.count('a', query.filter)).toBe(await oracle.count('a', query.filter))
      }
      expect(agreed / wanted).toBeGreaterThanOrEqual(0.95)
      expect(await index.scroll('a', { limit: 1000 })).toEqual(await oracle.scroll('a', { limit: 1000 }))
      await index.close()
      await oracle.close()
    }
  })

  test('three kills in mid-write lose no acknowledged point', { timeout: 120_000 }, async () => {
    await expectNothingLost(temporaryFolder(), 3, 6)
  })
})
