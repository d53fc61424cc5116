/**
 * Promises of every driver of the relational mirror: rows with their positions, reads that can only read,
 * generations.
 */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Mirror, MirrorOperation, MirrorPosition, MirrorRow } from '#engines/relational/mirror/port.ts'
import { prepareMirror } from '#engines/relational/mirror/tables.ts'
import { sqlState } from '#engines/relational/port.ts'
import { silentLog } from '../support/relational.ts'

export interface MirrorHarness {
  /** A mirror of its own; closed by the suite. */
  open(): Promise<Mirror>
}

const readTimeoutMs = 20_000
const target = { generation: 1, epoch: 1 }

export function describeMirror(driverName: string, harness: MirrorHarness): void {
  describe(`the mirror on ${driverName}`, () => {
    let opened: Mirror
    const mirror = () => opened
    beforeAll(async () => {
      opened = await harness.open()
      await opened.prepare()
    })
    afterAll(() => opened?.close())
    describeFresh(mirror)
    describeApply(mirror)
    describeReads(mirror)
    describeGenerations(mirror)
    describeEarlierTables(mirror)
  })
}

type Get = () => Mirror

function describeFresh(mirror: Get): void {
  test('fresh tables have no number until a writer takes them into use, and the first number stays', async () => {
    expect(await mirror().liveGeneration()).toBe(0)
    expect(await mirror().adoptGeneration(1)).toBe(1)
    expect(await mirror().adoptGeneration(2)).toBe(1)
    await mirror().prepare()
    expect(await mirror().liveGeneration()).toBe(1)
  })

  test('a server has the vector index from the start, the embedded engine scans', async () => {
    const { rows } = await mirror().write.query<{ def: string }>(
      `select indexdef as def from pg_indexes where schemaname = 'vectors' and indexdef like '%hnsw%'`,
    )
    if (mirror().driver === 'embedded') return expect(rows).toEqual([])
    expect(rows).toHaveLength(1)
    expect(rows[0]?.def).toMatch(/vector_cosine_ops.*m='16', ef_construction='128'/)
  })
}

function describeApply(mirror: Get): void {
  describe('applying', () => {
    beforeEach(() => emptied(mirror()))

    test('writes rows of both tables and the positions, and gives every value back', async () => {
      const row = rowOf(1, {
        title: `it's "1" \\ ü🙂`,
        tags: ['a', 'b,c', ''],
        updatedAt: new Date('2026-11-21T01:02:03.004Z'),
        expiresAt: new Date('2027-01-31T12:00:00.005Z'),
        payload: { title: 'x', deep: { __proto__: 1, '': [null, 1.5] } },
      })
      await mirror().apply(target, [operation(0, 5, 'a', row)], [{ partition: 0, next: 6 }])
      const { rows } = await mirror().write.query(
        `select e.id, vector_dims(e.embedding) as v, m.title, m.status, m.tags, m.mind_path, m.updated_at, m.payload, m.expires_at
         from vectors.embeddings e join vectors.metadata m using (collection, id)`,
      )
      expect(rows).toEqual([
        {
          id: 'a',
          v: 1536,
          title: row.title,
          status: null,
          tags: row.tags,
          mind_path: null,
          updated_at: row.updatedAt,
          payload: row.payload,
          expires_at: row.expiresAt,
        },
      ])
      expect(await mirror().positions(target)).toEqual([{ partition: 0, next: 6 }])
    })

    test('takes the last operation of a point, deletes included', async () => {
      await mirror().apply(
        target,
        [
          operation(0, 0, 'a', rowOf(1, { title: 'first' })),
          operation(0, 1, 'b', rowOf(2)),
          operation(0, 2, 'a', rowOf(3, { title: 'second' })),
          operation(0, 3, 'b', null),
          operation(0, 4, 'absent', null),
        ],
        [{ partition: 0, next: 5 }],
      )
      expect(await titles(mirror())).toEqual({ a: 'second' })
      await mirror().apply(target, [operation(0, 5, 'a', null)], [{ partition: 0, next: 6 }])
      expect(await titles(mirror())).toEqual({})
    })

    test('ignores rows below a held position, and never moves one back', async () => {
      await mirror().apply(target, [operation(3, 9, 'a', rowOf(1, { title: 'new' }))], [at(3, 10)])
      await mirror().apply(
        target,
        [operation(3, 2, 'a', rowOf(2, { title: 'old' })), operation(3, 10, 'b', rowOf(3))],
        [at(3, 5)],
      )
      expect(await titles(mirror())).toEqual({ a: 'new', b: null })
      expect(await mirror().positions(target)).toEqual([at(3, 10)])
    })

    test('leaves out what a writer brings that was overtaken, also where the position had to stay behind', async () => {
      // A record between the two is yet to be parked: the position may not pass it.
      const title = (text: string) => rowOf(1, { title: text })
      await mirror().apply(target, [operation(0, 5, 'a', title('5'))], [at(0, 6)])
      await mirror().apply(target, [operation(0, 8, 'a', title('8')), operation(0, 9, 'b', title('9'))], [])
      expect(await mirror().positions(target)).toEqual([at(0, 6)])
      await mirror().apply(target, [operation(0, 6, 'a', title('6')), operation(0, 7, 'b', null)], [])
      expect(await titles(mirror())).toEqual({ a: '8', b: '9' })
      await mirror().apply(target, [operation(0, 10, 'b', null)], [])
      expect(await titles(mirror())).toEqual({ a: '8' })
    })

    test('ignores late rows from before the log was grown', async () => {
      const grown = { ...target, epoch: 2 }
      await mirror().apply(target, [operation(0, 40, 'a', rowOf(1, { title: 'old' }))], [at(0, 41)])
      await mirror().apply(grown, [operation(3, 0, 'a', rowOf(1, { title: 'new' }))], [at(3, 1)])
      await mirror().apply(target, [operation(0, 41, 'a', rowOf(1, { title: 'late' }))], [at(0, 42)])
      expect(await titles(mirror())).toEqual({ a: 'new' })
    })

    test('keeps positions of epochs apart, and moves one without any row', async () => {
      await mirror().apply(target, [], [at(0, 7), at(1, 8)])
      await mirror().apply({ generation: 1, epoch: 2 }, [], [at(0, 1)])
      expect((await mirror().positions(target)).sort((a, b) => a.partition - b.partition)).toEqual([
        at(0, 7),
        at(1, 8),
      ])
      expect(await mirror().positions({ generation: 1, epoch: 2 })).toEqual([at(0, 1)])
    })

    test('applies nothing of a batch with a row that the engine refuses, nor its positions', async () => {
      for (const embedding of [new Float32Array(3), new Float32Array(1536).fill(Number.NaN)]) {
        const bad = { ...rowOf(1), embedding }
        const refused = mirror().apply(
          target,
          [operation(0, 0, 'a', rowOf(1)), operation(0, 1, 'b', bad)],
          [at(0, 2)],
        )
        await expect(refused).rejects.toMatchObject({ code: 'validation_failed' })
      }
      expect(await titles(mirror())).toEqual({})
      expect(await mirror().positions(target)).toEqual([])
    })

    test('takes the longest ids and payloads next to a vector', async () => {
      const id = '🙂'.repeat(512)
      const payload = { text: Array.from({ length: 8_000 }, (_, i) => i * 7919).join(' ') }
      await mirror().apply(target, [operation(0, 0, id, rowOf(1, { payload }))], [at(0, 1)])
      const { rows } = await mirror().write.query('select id, payload from vectors.metadata')
      expect(rows).toEqual([{ id, payload }])
    })

    test('two writers at once end as if one had come after the other', async () => {
      const batch = (partition: number, n: number) =>
        mirror().apply(
          target,
          [operation(partition, n, `p${partition}`, rowOf(n, { title: `${n}` }))],
          [at(partition, n + 1)],
        )
      await Promise.all(Array.from({ length: 12 }, (_, i) => batch(i % 3, i)))
      expect(await titles(mirror())).toEqual({ p0: '9', p1: '10', p2: '11' })
    })

    test('says that the engine is away for a generation without tables: no row is given up for it', async () => {
      const lost = mirror().apply({ generation: 99, epoch: 1 }, [operation(0, 0, 'a', rowOf(1))], [at(0, 1)])
      await expect(lost).rejects.toMatchObject({ code: 'relational_engine_unavailable' })
    })
  })
}

function describeReads(mirror: Get): void {
  describe('reading', () => {
    const read = (text: string, params: string[] = [], settings: Record<string, string> = {}) =>
      mirror().read(text, params, { timeoutMs: readTimeoutMs, settings })
    const stateOf = (text: string) => read(text).then(() => 'done', sqlState)

    test('sees the tables, with parameters and with settings of its own', async () => {
      await emptied(mirror())
      await mirror().apply(target, [operation(0, 0, 'a', rowOf(1, { title: 't' }))], [at(0, 1)])
      const { rows } = await read('select id from vectors.embeddings where collection = $1', ['posts'])
      expect(rows).toEqual([{ id: 'a' }])
      expect((await read('select title from vectors.metadata')).rows).toEqual([{ title: 't' }])
      const shown = `select current_setting('hnsw.ef_search') as ef`
      await mirror().write.query(`select '[1]'::vector`)
      expect((await read(shown, [], { 'hnsw.ef_search': '128' })).rows).toEqual([{ ef: '128' }])
      expect((await read(shown, [], { 'hnsw.ef_search': '200' })).rows).toEqual([{ ef: '200' }])
    })

    test('sees nothing else', async () => {
      await mirror().write.query(
        'create schema if not exists platform; create table if not exists platform.secrets (x text)',
      )
      expect(await stateOf('select * from platform.secrets')).toBe('42501')
      expect(await stateOf('select * from vectors_build.positions')).toBe('42501')
      expect(await stateOf('select * from public.platform_migrations')).toBe('42501')
    })

    test('changes nothing, and is one statement', async () => {
      expect(await stateOf('delete from vectors.embeddings')).toMatch(/25006|42501/)
      expect(await stateOf('create temp table x (y text)')).toMatch(/25006|42501/)
      expect(await stateOf('select 1; select 2')).toBe('42601')
      expect((await read('select 1 as one')).rows).toEqual([{ one: 1 }])
    })

    test('follows a table that changes between two reads of the same statement', async () => {
      const { write } = mirror()
      await write.query(`create table vectors.things (n int4); insert into vectors.things values (1)`)
      const ns = async () => (await read('select n from vectors.things')).rows
      for (let times = 0; times < 3; times++) expect(await ns()).toEqual([{ n: 1 }])
      await write.query(`alter table vectors.things alter column n type text using 'now ' || n`)
      for (let times = 0; times < 3; times++) expect(await ns()).toEqual([{ n: 'now 1' }])
      await write.query('drop table vectors.things')
      expect(await stateOf('select n from vectors.things')).toBe('42P01')
    })

    test('gives a vector of float32 back as it was sent, the smallest included', async () => {
      const sent = Float32Array.from([0.1, -1 / 3, 1e-40, 3.4e38])
      const { rows } = await mirror().read<{ sent: string }>('select $1::vector::text as sent', [sent], {
        timeoutMs: readTimeoutMs,
      })
      expect(Float32Array.from(JSON.parse(rows[0]!.sent) as number[])).toEqual(sent)
    })

    test('takes any number of statements, each of them again and again', async () => {
      const texts = Array.from({ length: 250 }, (_, n) => `select ${n} as n`)
      for (let times = 0; times < 3; times++) {
        const found = await Promise.all(texts.map((text) => read(text)))
        expect(found.map(({ rows }) => rows[0]?.n)).toEqual(texts.map((_, n) => n))
      }
    })

    test('leaves the writer its rights', async () => {
      await read('select 1')
      const { rows } = await mirror().write.query<{ who: boolean }>(
        'select current_user = session_user as who',
      )
      expect(rows).toEqual([{ who: true }])
    })
  })
}

function describeGenerations(mirror: Get): void {
  test('a new generation is filled while the live one is used, and replaces it at once, with the rights of readers', async () => {
    await emptied(mirror())
    await mirror().apply(target, [operation(0, 0, 'a', rowOf(1, { title: 'old' }))], [at(0, 1)])
    await mirror().createGeneration(2)
    await mirror().apply({ generation: 2, epoch: 1 }, [operation(0, 0, 'stale', rowOf(1))], [at(0, 1)])
    // Beginning again empties it, its positions included.
    await mirror().createGeneration(2)
    const next = { generation: 2, epoch: 1 }
    expect(await mirror().positions(next)).toEqual([])
    await mirror().apply(next, [operation(0, 0, 'a', rowOf(1, { title: 'new' }))], [at(0, 1)])
    expect(await titles(mirror())).toEqual({ a: 'old' })
    await mirror().finishGeneration(2)
    await mirror().finishGeneration(2)
    await mirror().promoteGeneration(2)
    await mirror().promoteGeneration(2)
    expect(await mirror().liveGeneration()).toBe(2)
    expect(await titles(mirror())).toEqual({ a: 'new' })
    const seen = await mirror().read('select id from vectors.embeddings', [], { timeoutMs: readTimeoutMs })
    expect(seen.rows).toEqual([{ id: 'a' }])
    await mirror().apply(next, [operation(0, 1, 'b', rowOf(2))], [at(0, 2)])
    expect(await titles(mirror())).toEqual({ a: 'new', b: null })
    await expect(mirror().createGeneration(2)).rejects.toThrow(/live/)
    await expect(mirror().dropGeneration(2)).rejects.toThrow(/live/)
    await mirror().createGeneration(3)
    await mirror().dropGeneration(3)
    await mirror().dropGeneration(3)
  })

  test('writers and readers go on while a generation replaces another', async () => {
    const live = await mirror().liveGeneration()
    const next = live + 1
    await mirror().createGeneration(next)
    await mirror().apply({ generation: next, epoch: 1 }, [operation(0, 0, 'a', rowOf(1))], [at(0, 1)])
    await mirror().finishGeneration(next)
    const writing = Array.from({ length: 5 }, (_, i) =>
      mirror().apply({ generation: next, epoch: 1 }, [operation(i, 1, `w${i}`, rowOf(i))], [at(i, 2)]),
    )
    const reading = Array.from({ length: 5 }, () =>
      mirror().read('select count(*) as n from vectors.embeddings', [], { timeoutMs: readTimeoutMs }),
    )
    await Promise.all([...writing, mirror().promoteGeneration(next), ...reading])
    expect(Object.keys(await titles(mirror()))).toEqual(['a', 'w0', 'w1', 'w2', 'w3', 'w4'])
  })
}

function describeEarlierTables(mirror: Get): void {
  test('tables of a release without expiries get their column, those of a rebuild, too', async () => {
    const { write } = mirror()
    const next = (await mirror().liveGeneration()) + 1
    await mirror().createGeneration(next)
    await write.query(
      `alter table vectors.metadata drop column expires_at;
       alter table vectors_build.metadata_g${next} drop column expires_at;
       delete from public.platform_migrations where name = '003-mirror-expires-at.sql'`,
    )
    await prepareMirror(write, silentLog)
    const expiresAt = new Date('2027-01-31T12:00:00.005Z')
    for (const generation of [next - 1, next]) {
      await mirror().apply(
        { generation, epoch: 9 },
        [operation(0, 0, `e${generation}`, rowOf(1, { expiresAt }))],
        [],
      )
    }
    const expiring = 'select id, expires_at from vectors.metadata where expires_at is not null'
    expect((await write.query(expiring)).rows).toEqual([{ id: `e${next - 1}`, expires_at: expiresAt }])
    await mirror().promoteGeneration(next)
    expect((await write.query(expiring)).rows).toEqual([{ id: `e${next}`, expires_at: expiresAt }])
    const { rows } = await write.query(
      `select indexname from pg_indexes where schemaname = 'vectors' and indexdef like '%(expires_at)%'`,
    )
    expect(rows).toHaveLength(1)
  })
}

export function rowOf(seed: number, fields: Partial<MirrorRow> = {}): MirrorRow {
  const embedding = Float32Array.from({ length: 1536 }, (_, i) => Math.sin(i * (seed + 1)))
  return {
    embedding,
    title: null,
    status: null,
    tags: null,
    mindPath: null,
    updatedAt: null,
    expiresAt: null,
    payload: {},
    ...fields,
  }
}

function operation(partition: number, offset: number, id: string, row: MirrorRow | null): MirrorOperation {
  return { partition, offset, collection: 'posts', id, row }
}

function at(partition: number, next: number): MirrorPosition {
  return { partition, next }
}

async function emptied(mirror: Mirror): Promise<void> {
  await mirror.write.query(
    'truncate vectors.embeddings, vectors.metadata; delete from vectors_build.positions',
  )
}

async function titles(mirror: Mirror): Promise<Record<string, string | null>> {
  const { rows } = await mirror.write.query<{ id: string; title: string | null }>(
    'select id, title from vectors.embeddings join vectors.metadata using (collection, id) order by id',
  )
  return Object.fromEntries(rows.map((row) => [row.id, row.title]))
}
