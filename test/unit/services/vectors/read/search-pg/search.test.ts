/** search-pg over a scripted engine: how often it is asked, and what becomes of its faults. */

import { expect, test } from 'vitest'
import type { ReadOptions } from '#engines/relational/mirror/port.ts'
import type { SqlValue } from '#engines/relational/port.ts'
import { SqlFault } from '#engines/relational/sql-faults.ts'
import { toSqlText } from '#engines/relational/statements.ts'
import { AppError } from '#lib/errors.ts'
import { loadPgSearch } from '#services/vectors/read/search-pg/search.ts'

const catalogue = [
  ...['collection:text', 'id:text'].map((column) => `embeddings:${column}`),
  'embeddings:embedding:vector',
  ...['collection:text', 'id:text', 'title:text', 'payload:jsonb'].map((column) => `metadata:${column}`),
].map((line) => {
  const [table, name, type] = line.split(':')
  return { table, name, type, modifier: type === 'vector' ? 1536 : -1 }
})

type Answer = Record<string, unknown>[] | Error

/** Answers statements by their kind; `rows` may be asked several times. */
async function searchOver(
  rows: Answer[],
  driver: 'postgres' | 'embedded' = 'postgres',
  count: Answer = [{ eligible: 5_000 }],
) {
  const asked: string[] = []
  const options: (ReadOptions & { kind: string })[] = []
  const search = await loadPgSearch({
    driver,
    async read<Row>(text: string, _: SqlValue[], given: ReadOptions) {
      const kind = kindOf(text)
      asked.push(kind)
      options.push({ ...given, kind })
      const answer = kind === 'rows' || kind === 'exact' ? rows.shift()! : { ...others, count }[kind]!
      if (answer instanceof Error) throw answer
      return { rows: answer as Row[], rowCount: answer.length }
    },
  })
  return { search: search.search, asked, options }
}

const slowOnes = (options: (ReadOptions & { kind: string })[]) =>
  options.filter(({ kind }) => kind === 'rows').map(({ slow }) => slow === true)

const others: Record<string, Answer> = {
  catalogue,
  estimate: [{ 'QUERY PLAN': [{ Plan: { 'Plan Rows': 77 } }] }],
}

function kindOf(text: string): string {
  if (text.includes('pg_catalog.pg_class')) return 'catalogue'
  if (text.startsWith('explain')) return 'estimate'
  if (text.startsWith('select count')) return 'count'
  return text.includes('materialized') ? 'exact' : 'rows'
}

const row = { collection: 'posts', id: 'a', distance: 0.25 }
const query = {
  caller: 'whale',
  table: 'embeddings',
  vector: new Float32Array(1_536),
  limit: 1,
  withPayload: false,
  withVector: false,
}
const hit = { collection: 'posts', id: 'a', score: 0.75 }

test('a search that was made before is one statement', async () => {
  const { search, asked } = await searchOver([[row], [row], [row]])
  expect(await search({ ...query, filter: "title = 'a'" })).toEqual({ hits: [hit], eligible: 77 })
  expect(asked.sort()).toEqual(['catalogue', 'estimate', 'rows'])
  asked.length = 0
  await search({ ...query, filter: "title = 'a'" })
  expect(asked).toEqual(['rows'])
  asked.length = 0
  expect(await search(query)).toEqual({ hits: [hit], eligible: 5_000 })
  expect(asked.sort()).toEqual(['count', 'rows'])
})

test('a table that takes long to count is estimated', async () => {
  const { search, asked } = await searchOver([[row]], 'postgres', new SqlFault('57014', 'too long'))
  expect(await search(query)).toEqual({ hits: [hit], eligible: 77 })
  expect(asked.sort()).toEqual(['catalogue', 'count', 'estimate', 'rows'])
})

test('when fewer rows come than were asked for, all are measured', async () => {
  const { search, asked } = await searchOver([[], [{ ...row, eligible: 1 }]])
  expect(await search({ ...query, filter: "title = 'a'" })).toEqual({ hits: [hit], eligible: 1 })
  expect(asked).toContain('exact')
})

test('the embedded engine measures all at once', async () => {
  const { search, asked } = await searchOver([[{ ...row, eligible: 9 }]], 'embedded')
  expect(await search(query)).toEqual({ hits: [hit], eligible: 9 })
  expect(asked).toEqual(['catalogue', 'exact'])
})

test('a refused filter is reported without waiting or searching', async () => {
  const { search, asked } = await searchOver([])
  let waited = false
  const ready = async () => {
    waited = true
  }
  const refused = search({ ...query, filter: 'now() > now()' }, ready)
  await expect(refused).rejects.toMatchObject({ code: 'invalid_filter' })
  expect(waited).toBe(false)
  expect(asked).toEqual(['catalogue'])
})

test('rows are read after the wait', async () => {
  const { search, asked } = await searchOver([[row]])
  await search(query, async () => {
    expect(asked).toEqual(['catalogue'])
  })
  expect(asked).toContain('rows')
})

test('a statement that takes too long to be quick is run as a slow one', async () => {
  const { search, asked, options } = await searchOver([
    new SqlFault('57014', 'too long'),
    [row],
    [row],
    [row],
  ])
  expect((await search({ ...query, filter: "title = 'a'" })).hits).toEqual([hit])
  expect(slowOnes(options)).toEqual([false, true])
  // From now on at once, but those of this agent alone, and only conditions.
  await search({ ...query, filter: "title = 'b'" })
  await search({ ...query, caller: 'orca', filter: "title = 'b'" })
  expect(slowOnes(options)).toEqual([false, true, true, false])
  expect(asked.filter((kind) => kind === 'rows')).toHaveLength(4)
})

test('what a slow condition asks of the server goes one by one, all of it as slow and on one core', async () => {
  const { search, asked, options } = await searchOver([new SqlFault('57014', 'too long'), [row], [row]])
  await search({ ...query, filter: "title = 'a'" })
  asked.length = 0
  options.length = 0
  expect((await search({ ...query, filter: "title = 'b'" })).eligible).toBe(77)
  expect(asked).toEqual(['rows', 'estimate'])
  for (const { slow, settings } of options) {
    expect(slow).toBe(true)
    expect(settings).toMatchObject({ max_parallel_workers_per_gather: '0' })
  }
})

test.each([
  ['57014', 'query_timeout', 503],
  ['22012', 'query_timeout', 503],
  ['22P02', 'invalid_filter', 400],
  ['42883', 'invalid_filter', 400],
  ['54001', 'invalid_filter', 400],
  ['53200', 'relational_engine_unavailable', 503],
  ['40001', 'relational_engine_unavailable', 503],
])('SQLSTATE %s becomes %s', async (state, code, statusCode) => {
  const says = new SqlFault(state, 'relation "secret" says no')
  const { search } = await searchOver([says, says])
  const fault = await search({ ...query, filter: "title = 'a'" }).catch((error: unknown) => error)
  expect(fault).toMatchObject({ code, statusCode })
  expect((fault as AppError).message).not.toContain('secret')
  if (statusCode === 503) expect((fault as AppError).retryAfter).toBe(1)
})

test('without a filter no fault is reported as one of the filter', async () => {
  const { search } = await searchOver([new SqlFault('22P02', 'odd')])
  await expect(search(query)).rejects.toBeInstanceOf(SqlFault)
})

test('the fault of an engine that is away is passed on unchanged', async () => {
  const away = new AppError('relational_engine_unavailable', 'away', { retryAfter: 1 })
  const { search } = await searchOver([away])
  await expect(search(query)).rejects.toBe(away)
})

test('a table that changed under its catalogue is read again, once', async () => {
  const { search, asked } = await searchOver([new SqlFault('42P01', 'gone'), [row]])
  expect((await search(query)).hits).toEqual([hit])
  expect(asked.filter((kind) => kind === 'catalogue')).toHaveLength(2)
  const gone = await searchOver([new SqlFault('42P01', 'gone'), new SqlFault('42P01', 'gone')])
  await expect(gone.search(query)).rejects.toBeInstanceOf(SqlFault)
})

test('a vector that vanishes in float32 is zero for the engine, too', () => {
  expect(toSqlText(Float32Array.from([1e-60, -1, 0.5, 1e-40]))).toMatch(/^\[0,-1,0\.5,[\d.]+e-41\]$/)
})
