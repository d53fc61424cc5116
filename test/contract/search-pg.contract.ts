/**
 * Promises of search-pg on every relational mirror: the nearest rows of a table that an SQL condition lets through.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Mirror, MirrorOperation, MirrorRow } from '#engines/relational/mirror/port.ts'
import { sqlState } from '#engines/relational/port.ts'
import {
  loadPgSearch,
  type PgFound,
  type PgQuery,
  type PgSearch,
} from '#services/vectors/read/search-pg/search.ts'
import { eventually } from '../support/eventually.ts'
import { axisVector } from '../support/points.ts'

export interface SearchPgHarness {
  /** An empty mirror. */
  open(): Promise<Mirror>
  /** Answers come from an index: then the suite also walks it where the planner would not, and ends its scans early. */
  indexed: boolean
}

const clusters = 12
const each = 60
/** Long enough for any machine: these tests check results, not speed. */
const patienceMs = 100_000
const total = clusters * each

const dimensions = 48
const vectors = makeVectors()

/** Clusters that are not all equally far from each other: a graph index needs a slope to walk along. */
function makeVectors(): number[][] {
  let state = 1
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32 - 0.5
  }
  const some = () => Array.from({ length: dimensions }, random)
  const centres = Array.from({ length: clusters }, some)
  return Array.from({ length: total }, (_, n) => {
    const vector = axisVector(0).fill(0)
    some().forEach((noise, i) => {
      vector[i * 30] = centres[n % clusters]![i]! + noise * 0.6
    })
    return vector
  })
}

const farAway = new Date('2999-01-31T12:00:00.123Z')

const vectorOf = (n: number): number[] => vectors[n]!

const rowOf = (n: number): MirrorRow => ({
  embedding: Float32Array.from(vectorOf(n)),
  title: `Title ${n}`,
  status: n % 3 === 0 ? 'active' : 'draft',
  tags: n % 2 === 0 ? ['even', `t${n % 5}`] : null,
  mindPath: `notes/${n}.md`,
  updatedAt: new Date(Date.UTC(2026, 0, 1) + n * 60_000),
  expiresAt: n === 42 ? farAway : null,
  payload: { n, nested: { text: `"quoted" ${n} 😀` } },
})

const longIds = Array.from({ length: 40 }, (_, n) => `long-${n}`)

const collectionOf = (n: number) => (n % 4 === 0 ? 'posts' : 'knowledgebase')
const idOf = (n: number) => `p${String(n).padStart(4, '0')}`

function similarity(a: number[], b: number[]): number {
  const dot = (x: number[], y: number[]) => x.reduce((sum, value, i) => sum + value * y[i]!, 0)
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
}

/** The ids that a plain loop finds. */
function nearest(vector: number[], limit: number, keep: (n: number) => boolean): string[] {
  return Array.from({ length: total }, (_, n) => n)
    .filter(keep)
    .map((n) => ({ id: idOf(n), score: similarity(vector, vectorOf(n)) }))
    .sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1))
    .slice(0, limit)
    .map(({ id }) => id)
}

/** The planner walks the vector index whenever it can, and the walk ends after few rows. */
function alongTheIndex(mirror: Mirror): Pick<Mirror, 'driver' | 'read'> {
  const settings = {
    enable_seqscan: 'off',
    enable_bitmapscan: 'off',
    enable_sort: 'off',
    enable_hashjoin: 'off',
    enable_mergejoin: 'off',
    'hnsw.max_scan_tuples': '100',
    'hnsw.ef_search': '64',
  }
  return {
    driver: mirror.driver,
    read: (text, params, options) =>
      mirror.read(text, params, { ...options, settings: { ...options.settings, ...settings } }),
  }
}

/** Each is as near as a row that stays, and would be found and counted in every test below. */
function expiredRows(): MirrorOperation[] {
  return Array.from({ length: total / 8 }, (_, i) => ({
    partition: 2,
    offset: i,
    collection: collectionOf(i * 8),
    id: `gone-${i}`,
    row: { ...rowOf(i * 8), expiresAt: new Date(Date.now() - i) },
  }))
}

async function fill(mirror: Mirror): Promise<void> {
  const generation = await mirror.adoptGeneration(1)
  for (let from = 0; from < total; from += 240) {
    const operations = Array.from({ length: 240 }, (_, i) => from + i).map((n) => ({
      partition: 0,
      offset: n,
      collection: collectionOf(n),
      id: idOf(n),
      row: rowOf(n),
    }))
    await mirror.apply({ generation, epoch: 1 }, operations, [{ partition: 0, next: from + 240 }])
  }
  await mirror.apply({ generation, epoch: 1 }, expiredRows(), [])
  await mirror.write.query('analyze vectors.embeddings; analyze vectors.metadata')
}

export function describeSearchPg(driver: string, harness: SearchPgHarness): void {
  const ways = harness.indexed
    ? (['as planned', 'along the index', 'as slow ones'] as const)
    : (['as planned', 'as slow ones'] as const)
  let mirror: Mirror
  let searches: Record<'as planned' | 'along the index' | 'as slow ones', PgSearch>

  beforeAll(async () => {
    mirror = await harness.open()
    await fill(mirror)
    searches = {
      'as planned': await loadPgSearch(mirror, undefined, patienceMs),
      'along the index': await loadPgSearch(alongTheIndex(mirror), undefined, patienceMs),
      // Statements that may be slow have no time to be quick.
      'as slow ones': await loadPgSearch(mirror, { ms: harness.indexed ? 1 : 0, msPerMb: 0 }, patienceMs),
    }
  }, 240_000)
  afterAll(() => mirror?.close())

  const queryOf = (vector: number[], given: Partial<PgQuery> = {}): PgQuery => ({
    caller: 'whale',
    table: 'embeddings',
    vector: Float32Array.from(vector),
    limit: 10,
    withPayload: false,
    withVector: false,
    ...given,
  })

  describe.each(ways)(`search-pg on ${driver}, %s`, (way) => {
    const search = (vector: number[], given: Partial<PgQuery> = {}) =>
      searches[way].search(queryOf(vector, given))
    const refused = (filter: string) => search(vectorOf(1), { filter }).catch((error) => error)

    test('finds what a plain loop finds, by falling score', async () => {
      let found = 0
      for (let n = 0; n < 20; n++) {
        const query = vectorOf(n * 7)
        const { hits } = await search(query)
        const expected = nearest(query, 10, () => true)
        found += hits.filter(({ id }) => expected.includes(id)).length
        expect(hits.map(({ score }) => score)).toEqual(hits.map(({ score }) => score).sort((a, b) => b - a))
        expect(hits[0]!.score).toBeCloseTo(1, 5)
      }
      expect(found / 200).toBeGreaterThanOrEqual(harness.indexed ? 0.95 : 1)
    })

    test.each<[string, (n: number) => boolean]>([
      ["collection = 'posts'", (n) => n % 4 === 0],
      ["status = 'active'", (n) => n % 3 === 0],
      ["'t4' = ANY(tags) AND title LIKE 'Title 1%'", (n) => n % 2 === 0 && n % 5 === 4 && `${n}`[0] === '1'],
      ["tags IS NULL AND NOT status <> 'active'", (n) => n % 2 === 1 && n % 3 === 0],
      ["id IN ('p0003', 'p0500', 'nothing')", (n) => n === 3 || n === 500],
      [
        `updated_at BETWEEN '2026-01-01T01:00:00Z' AND timestamptz '2026-01-01 02:30+00'`,
        (n) => n >= 60 && n <= 150,
      ],
      ["mind_path ILIKE 'NOTES/7_.MD' OR collection = 'absent'", (n) => n >= 70 && n < 80],
    ])('returns as many as there are, up to the limit: %s', async (filter, keep) => {
      const expected = nearest(vectorOf(13), 10, keep)
      const { hits } = await search(vectorOf(13), { filter })
      expect(hits).toHaveLength(expected.length)
      const same = hits.filter(({ id }) => expected.includes(id)).length
      expect(same / expected.length).toBeGreaterThanOrEqual(harness.indexed ? 0.9 : 1)
      for (const { id } of hits) expect(keep(Number(id.slice(1)))).toBe(true)
    })

    test('finds the few rows of a filter at the far end of the space', async () => {
      const { hits, eligible } = await search(vectorOf(0), { filter: `title IN ('Title 11', 'Title 23')` })
      expect(hits.map(({ id }) => id)).toEqual(nearest(vectorOf(0), 2, (n) => n === 11 || n === 23))
      expect(eligible).toBe(2)
    })

    test('gives ids, collections, payloads and vectors back as they were', async () => {
      const { hits } = await search(vectorOf(42), { limit: 1, withPayload: true, withVector: true })
      expect(hits).toEqual([
        {
          collection: 'knowledgebase',
          id: 'p0042',
          score: expect.closeTo(1, 6),
          payload: rowOf(42).payload,
          vector: Array.from(Float32Array.from(vectorOf(42))),
          expiresAt: farAway.getTime(),
        },
      ])
    })

    test('counts the rows that were eligible', async () => {
      const { eligible } = await search(vectorOf(1))
      expect(eligible).toBe(total)
      const filtered = await search(vectorOf(1), { filter: "collection = 'posts'" })
      expect(filtered.eligible).toBeGreaterThan(total / 8)
      expect(filtered.eligible).toBeLessThan(total / 2)
      expect(await search(vectorOf(1), { filter: 'false' })).toEqual({
        hits: [],
        eligible: 0,
      } satisfies PgFound)
    })

    test.each([
      ["updated_at > 'the day before'", 'no date or time'],
      ["updated_at > '99999-99-99'", 'date or time'],
      ["title = 'a' OR '1e999'::float > 1", 'out of the range'],
      ["status = 'draft' AND title LIKE 'T\\'", 'LIKE pattern'],
      ["'one'::int = 1", 'cannot be read'],
      ["payload = 'no json'", 'cannot be read'],
    ])("a fault that only running shows is the filter's: %s", async (filter, says) => {
      const fault = await refused(filter)
      expect(fault).toMatchObject({ code: 'invalid_filter', statusCode: 400 })
      expect(fault.message).toContain(says)
      expect(fault.message).not.toMatch(/syntax for type|relation|operator/)
    })

    test('a filter that is not allowed runs nothing', async () => {
      const fault = await refused("true); DROP TABLE vectors.embeddings; --'")
      expect(fault).toMatchObject({ code: 'invalid_filter', message: expect.stringContaining('semicolon') })
      expect((await search(vectorOf(1))).hits).toHaveLength(10)
    })
  })

  describe(`tables of search-pg on ${driver}`, () => {
    const search = (given: Partial<PgQuery>) => searches['as planned'].search(queryOf(vectorOf(5), given))

    test.each([
      'metadata',
      'generations',
      'positions',
      'nothing',
      'vectors.embeddings',
      'pg_class',
      'e"; drop',
    ])('%s is not one of them', async (table) => {
      await expect(search({ table })).rejects.toMatchObject({ code: 'table_not_found', statusCode: 404 })
    })

    test.each(ways)('equally near rows come by id, whatever their number, %s', async (way) => {
      await mirror.write.query('create table vectors.twins (id text primary key, v vector(1536) not null)')
      await mirror.write
        .query('create index on vectors.twins using hnsw (v vector_cosine_ops)')
        .catch(() => {})
      await mirror.write.query(
        `insert into vectors.twins select chr(97 + n % 26) || n, $1::vector from generate_series(40, 1, -1) as n`,
        [queryOf(vectorOf(5)).vector],
      )
      const { hits } = await eventually('the table', async () =>
        searches[way].search(queryOf(vectorOf(5), { table: 'twins', limit: 7 })).catch(() => undefined),
      )
      expect(hits.map(({ id }) => id)).toEqual(['a26', 'b1', 'b27', 'c2', 'c28', 'd29', 'd3'])
      await mirror.write.query('drop table vectors.twins')
    })

    test('any table with a vector(1536) column and an id is searched by its own columns', async () => {
      await mirror.write.query(
        `create table vectors.books (id bigint primary key, about vector(1536), year int, payload jsonb)`,
      )
      await mirror.write.query(
        `insert into vectors.books values (1, null, 1999, null), (2, $1::vector, 2001, '{"a":1}'),
          (3, $2::vector, 2002, null)`,
        [queryOf(vectorOf(5)).vector, queryOf(vectorOf(6)).vector],
      )
      const { hits } = await eventually('the table', async () =>
        search({ table: 'books', withPayload: true }).catch(() => undefined),
      )
      expect(hits).toEqual([
        { id: '2', score: expect.closeTo(1, 6), payload: { a: 1 } },
        { id: '3', score: expect.any(Number), payload: {} },
      ])
      expect((await search({ table: 'books', filter: 'year > 2001' })).hits.map(({ id }) => id)).toEqual([
        '3',
      ])
      await expect(search({ table: 'books', filter: "title = 'x'" })).rejects.toMatchObject({
        code: 'invalid_filter',
        message: expect.stringContaining('about, year, payload'),
      })
      await mirror.write.query('alter table vectors.books rename column about to subject')
      expect((await search({ table: 'books' })).hits).toHaveLength(2)
      await mirror.write.query('drop table vectors.books')
      await expect(search({ table: 'books' })).rejects.toMatchObject({ code: 'table_not_found' })
    })

    test('slow conditions of one agent hold up neither the searches of another nor the writer', async () => {
      const write = (offset: number, row: MirrorRow | null) =>
        mirror.apply(
          { generation: 1, epoch: 1 },
          longIds.map((id, n) => ({ partition: 1, offset: offset + n, collection: 'posts', id, row })),
          [],
        )
      await write(0, { ...rowOf(0), title: 'a'.repeat(60_000) })
      const filters = ['a'.repeat(3_900), 'a'.repeat(250)].map((text) => `title LIKE '%${text}b%'`)
      const brief = await loadPgSearch(mirror)
      let over = false
      const slow = Promise.all(
        Array.from({ length: 4 }, (_, n) =>
          brief.search(queryOf(vectorOf(5), { caller: 'shark', filter: filters[n % 2]! })).then(
            () => 'found',
            (fault) => fault.code,
          ),
        ),
      ).finally(() => {
        over = true
      })
      let others = 0
      for (; !over; others++) expect((await search({ caller: 'whale' })).hits).toHaveLength(10)
      expect(others).toBeGreaterThan(10)
      expect(await slow).toContain('query_timeout')
      await write(longIds.length, null)
    }, 120_000)

    test.each([
      ["insert into vectors.metadata (collection, id, payload) values ('a', 'b', '{}')", /25006|42501/],
      ['delete from vectors.embeddings', /25006|42501/],
      ['create table vectors.mine (id text)', /25006|42501/],
      ['drop table vectors.metadata', /25006|42501/],
      ['truncate vectors.metadata', /25006|42501/],
      ['select * from vectors_build.positions', /42501/],
      ['select rolpassword from pg_authid', /42501/],
      [`select pg_read_file('/etc/passwd')`, /42501/],
      [`copy vectors.metadata to program 'id'`, /42501/],
      ['select 1; drop table vectors.metadata', /42601/],
    ])('a read may not: %s', async (statement, state) => {
      const fault = await mirror.read(statement, [], { timeoutMs: 5_000 }).catch((error: unknown) => error)
      expect(sqlState(fault)).toMatch(state)
    })
  })
}
