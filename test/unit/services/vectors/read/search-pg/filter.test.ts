/** filter_sql: which filters are refused and by which name, and how values are read. */

import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { type FilterCompiler, loadFilterCompiler } from '#services/vectors/read/search-pg/filter.ts'
import type { Columns } from '#services/vectors/read/search-pg/filter-checker.ts'

interface Hostile {
  /** The message must contain it. */
  names: string
  filter: string
  repeated?: string
  times?: number
  end?: string
}

const hostile = JSON.parse(
  readFileSync(new URL('../../../../../data/hostile-filters.json', import.meta.url), 'utf8'),
) as Hostile[]
const types = {
  collection: 'text',
  id: 'text',
  embedding: 'vector',
  title: 'text',
  status: 'text',
  tags: '_text',
  updated_at: 'timestamptz',
  payload: 'jsonb',
  views: 'int4',
  active: 'bool',
}
const columns: Columns = new Map(
  Object.entries(types).map(([name, type]) => [name, { name, type, alias: 'm' }]),
)

let compile: FilterCompiler
beforeAll(async () => {
  compile = await loadFilterCompiler()
})

function refusal(filter: string): AppError {
  try {
    compile(filter, columns)
  } catch (error) {
    return error as AppError
  }
  throw new Error(`was accepted: ${filter.slice(0, 200)}`)
}

describe('a hostile filter_sql', () => {
  test('there are enough of them', () => expect(hostile.length).toBeGreaterThan(150))

  test.each(hostile)('is refused: $names in $filter', ({ names, filter, repeated, times, end }) => {
    const fault = refusal(filter + (repeated ?? '').repeat(times ?? 0) + (end ?? ''))
    expect(fault).toBeInstanceOf(AppError)
    expect(fault.code).toBe('invalid_filter')
    expect(fault.message).toContain(names)
    expect(fault.message.length).toBeLessThan(600)
    expect(fault.errors).toEqual([{ path: '/filter_sql', message: fault.message }])
  })

  test('leaves the parser as it was', () => {
    for (const { filter, repeated, times, end } of hostile) {
      refusal(filter + (repeated ?? '').repeat(times ?? 0) + (end ?? ''))
    }
    expect(compile("title = 'still here'", columns).sql).toBe('("m"."title" = $1)')
  })

  test('is refused again the second time', () => {
    expect(refusal('now() > updated_at').message).toBe(refusal('now() > updated_at').message)
  })
})

describe('an allowed filter_sql', () => {
  test.each([
    ["status = 'active'", '("m"."status" = $1)', ['active']],
    ["'x'=ANY(tags)", '($1 = any("m"."tags"))', ['x']],
    ["title like'x%'", '("m"."title" like $1)', ['x%']],
    ["title NOT ILIKE '%''--;/*$$'", '("m"."title" not ilike $1)', ["%'--;/*$$"]],
    [
      "updated_at >= timestamptz '2026-01-01' AND NOT active",
      '(("m"."updated_at" >= $1::pg_catalog.timestamptz) and (not ("m"."active")))',
      ['2026-01-01'],
    ],
    [
      'views BETWEEN -1 AND 2.5',
      '("m"."views" >= $1::pg_catalog.int4 and "m"."views" <= $2::pg_catalog.numeric)',
      ['-1', '2.5'],
    ],
    ["status NOT IN ('', 'b')", '("m"."status" not in ($1, $2))', ['', 'b']],
    ["title IN ('a', status)", '("m"."title" in ($1) or "m"."title" = "m"."status")', ['a']],
    ['"status" IS NOT NULL', '("m"."status" is not null)', []],
    ['STATUS != NULL', '("m"."status" <> $1)', [null]],
    ['active = false', '("m"."active" = $1::pg_catalog.bool)', ['false']],
    ['views = 0', '("m"."views" = $1::pg_catalog.int4)', ['0']],
    ['views < -2147483648', '("m"."views" < $1::pg_catalog.int4)', ['-2147483648']],
    ['views < 2147483648', '("m"."views" < $1::pg_catalog.int8)', ['2147483648']],
    ['views < 0xFFFF_FFFF_FF', '("m"."views" < $1::pg_catalog.int8)', ['1099511627775']],
    ['views < 1e3', '("m"."views" < $1::pg_catalog.numeric)', ['1e3']],
    ["views = CAST('7' AS integer)", '("m"."views" = $1::pg_catalog.int4)', ['7']],
    ['views = 1.5::int', '("m"."views" = $1::pg_catalog.numeric::pg_catalog.int4)', ['1.5']],
    ["status = 'a' 'b'", undefined, undefined],
    ["status = 'a'\n'b'", '("m"."status" = $1)', ['ab']],
    ["status = '\\'", '("m"."status" = $1)', ['\\']],
    ["status = 'naïve 😀'", '("m"."status" = $1)', ['naïve 😀']],
    ['((((true))))', '($1::pg_catalog.bool)', ['true']],
  ])('%s', (filter, sql, params) => {
    if (sql === undefined) return expect(refusal(filter).code).toBe('invalid_filter')
    expect(compile(filter, columns)).toMatchObject({ sql, params })
  })

  test('may be as long and as nested as the limits say', () => {
    expect(compile(`${"status = 'a' OR ".repeat(250)}true`, columns).params).toHaveLength(251)
    expect(compile(`${'NOT '.repeat(62)}active`, columns).sql).toContain('"active"')
    expect(compile(`${'('.repeat(2_000)}active${')'.repeat(2_000)}`, columns).sql).toBe('("m"."active")')
  })

  test('says where a text stops being a condition', () => {
    expect(refusal("status = 'é' AND ) x").message).toContain('near ") x"')
    expect(refusal("status = 'é' AND").message).toContain('at its end')
  })
})
