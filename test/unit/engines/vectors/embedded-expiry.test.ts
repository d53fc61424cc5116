/** Points of the embedded vector engine that expire: many at once, files of earlier releases, stops, the timer. */

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pino } from 'pino'
import { afterEach, describe, expect, test } from 'vitest'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import type { Filter, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { sleep } from '#lib/backoff.ts'
import { eventually } from '#test/support/eventually.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import { deleteOf, upsertOf, vectorOf } from '#test/support/vectors.ts'

const dimension = 16
const opened: VectorStore[] = []

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
})

async function open(directory: string, index: 'zvec' | 'exact' = 'zvec'): Promise<VectorStore> {
  const log = pino({ level: 'silent' })
  const store = await openEmbeddedVectors({ directory, collections: ['a', 'b'], dimension, log, index })
  opened.push(store)
  return store
}

function point(id: string, payload: object, expiresAt?: number): PointOperation {
  const operation = upsertOf(id, vectorOf(dimension, 1, Number(id.slice(1)) || 0), payload)
  return expiresAt === undefined ? operation : ({ ...operation, expiresAt } as PointOperation)
}

async function reached(time: number): Promise<void> {
  while (Date.now() < time) await sleep(Math.max(1, time - Date.now()))
}

/** Looks into the file while the engine has it open. */
function look<T>(directory: string, work: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(join(directory, 'points.db'), { readOnly: true })
  try {
    return work(db)
  } finally {
    db.close()
  }
}

const rowsOf = (directory: string, table: string) =>
  look(directory, (db) => (db.prepare(`select count(*) as c from "${table}"`).get() as { c: number }).c)

const isAll: Filter = { must: [{ key: 'all', match: { value: true } }] }
const isEven: Filter = { must_not: [{ key: 'odd', match: { value: true } }] }
const isPositive: Filter = { must: [{ key: 'k', range: { gte: 0 } }] }

describe('points that expire', () => {
  for (const index of ['zvec', 'exact'] as const) {
    test(`while thousands are removed every read leaves them out (${index})`, async () => {
      const store = await open(temporaryFolder(), index)
      const expiresAt = Date.now() + 3_000
      const many = Array.from({ length: 3_000 }, (_, i) => {
        const payload = { all: true, odd: i % 2 === 1, k: i, updated_at: new Date(1e12 + i).toISOString() }
        return point(`p${i}`, payload, i % 3 === 0 ? undefined : expiresAt)
      })
      await store.apply('a', many)
      // Selections and counts that the expiry must change.
      for (const filter of [isAll, isEven, isPositive]) {
        await store.count('a', filter)
        await store.search('a', { vector: vectorOf(dimension, 1), limit: 3, filter })
      }
      await reached(expiresAt)
      const stays = (id: string) => Number(id.slice(1)) % 3 === 0
      for (let round = 0; round < 4; round++) {
        expect(await store.count('a')).toBe(1_000)
        expect((await store.stats()).find(({ collection }) => collection === 'a')!.points).toBe(1_000)
        for (const [filter, count] of [
          [isAll, 1_000],
          [isEven, 500],
          [isPositive, 1_000],
        ] as const) {
          expect(await store.count('a', filter)).toBe(count)
          const { hits } = await store.search('a', { vector: vectorOf(dimension, 1), limit: 40, filter })
          expect(hits.length).toBe(40)
          expect(hits.every(({ id }) => stays(id))).toBe(true)
          const { points } = await store.scroll('a', { limit: 50, filter })
          expect(points.length).toBe(50)
          expect(points.every(({ id }) => stays(id))).toBe(true)
          expect(await store.embedders('a', filter)).toEqual([{ embedder: null, points: count }])
        }
        const { points } = await store.scroll('a', { limit: 1_500, updatedAt: 'desc' })
        expect(points.length).toBe(1_000)
        expect(await store.embedders('a')).toEqual([{ embedder: null, points: 1_000 }])
        expect((await store.get('a', ['p0', 'p1', 'p2'])).map(({ id }) => id)).toEqual(['p0'])
        expect((await store.held('a', ['p0', 'p1'])).map((held) => held.point?.id)).toEqual(['p0', undefined])
        const listed = await store.expired('a', 5_000)
        expect(new Set(listed.map(({ id }) => id)).size).toBe(2_000)
        expect(listed.length).toBe(2_000)
      }
    })
  }

  test('their rows go though nobody reads them, in every generation and also after others without end', async () => {
    const directory = temporaryFolder()
    const store = await open(directory)
    await store.createGeneration(2)
    const far = 8_640_000_000_000_000
    await store.apply('a', [point('p1', {}, far), point('p2', {}, Date.now() + 300)])
    await store.apply('a', [point('p3', {}, Date.now() + 100), point('p4', {})], { generation: 2 })
    await eventually(
      'rows are gone',
      () => rowsOf(directory, 'p_a_1') === 1 && rowsOf(directory, 'p_a_2') === 1,
    )
    await store.apply('b', [point('p5', {}, Date.now() + 100)])
    await eventually('a later one is gone', () => rowsOf(directory, 'p_b_1') === 0)
    expect((await store.get('a', ['p1']))[0]!.expiresAt).toBe(far)
  })

  test('a clean stop amid a removal and an unclean one lose nothing of it', async () => {
    const directory = temporaryFolder()
    const store = await open(directory)
    const expiresAt = Date.now() + 2_000
    const many = Array.from({ length: 1_500 }, (_, i) =>
      point(`p${i}`, { all: true, k: i }, i % 2 === 0 ? undefined : expiresAt),
    )
    await store.apply('a', many)
    await reached(expiresAt)
    await store.count('a')
    await store.close()
    const second = await open(directory)
    expect([await second.count('a'), await second.count('a', isAll)]).toEqual([750, 750])
    await second.close()
    rmSync(join(directory, 'index', 'CLEAN'))
    const third = await open(directory)
    expect([await third.count('a'), await third.count('a', isAll)]).toEqual([750, 750])
    expect((await third.expired('a', 2_000)).length).toBe(750)
    expect((await third.search('a', { vector: vectorOf(dimension, 1), limit: 1_000 })).hits.length).toBe(750)
  })

  test('a file of the last release takes expiries, in collections that callers made too', async () => {
    const directory = temporaryFolder()
    const own = 'mine~0123456789'
    const first = await open(directory)
    for (const name of ['a', own]) {
      await first.apply(name, [point('p1', { k: 1 }), point('p2', { k: 2 })])
      await first.apply(name, [deleteOf('p2')])
    }
    await first.close()
    asBefore(directory, ['a_1', `${own}_1`])
    const second = await open(directory)
    for (const name of ['a', own]) {
      expect((await second.held(name, ['p1', 'p2'])).map(({ point: whole }) => whole?.id)).toEqual([
        'p1',
        undefined,
      ])
      await second.apply(name, [point('p3', {}, Date.now() - 1), point('p4', {}, Date.now() + 60_000)])
      expect((await second.expired(name, 5)).map(({ id }) => id)).toEqual(['p3'])
    }
    await second.forgetDeletions(0)
    for (const name of ['a', own]) {
      expect((await second.held(name, ['p1', 'p2', 'p3', 'p4'])).map(({ id }) => id)).toEqual([
        'p1',
        'p3',
        'p4',
      ])
      expect(await second.count(name)).toBe(2)
    }
    await second.dropCollection(own)
    expect(await second.expired(own, 5)).toEqual([])
  })
})

/** Takes away what this release added to the tables. */
function asBefore(directory: string, tables: string[]): void {
  const db = new DatabaseSync(join(directory, 'points.db'))
  for (const name of tables) {
    db.exec(`drop index "p_${name}_expiry"; drop index "d_${name}_deleted"; drop index "d_${name}_expired";
      alter table "p_${name}" drop column expires_at; alter table "d_${name}" drop column expired;
      create index "d_${name}_age" on "d_${name}" (deleted_at)`)
  }
  db.close()
}
