/** An accepted filter_sql selects the same rows through the emitted SQL as its plain text does. */

import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { type Relational, type SqlValue, sqlState } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import {
  type FilterCompiler,
  loadFilterCompiler,
  withTimeLimit,
} from '#services/vectors/read/search-pg/filter.ts'
import type { Columns } from '#services/vectors/read/search-pg/filter-checker.ts'
import { openEmptyRelational } from '#test/support/relational.ts'
import { propertyRuns } from '../../../../../support/property-runs.ts'

const types: Record<string, string> = {
  id: 'text',
  title: 'text',
  code: 'varchar',
  padded: 'bpchar',
  small: 'int2',
  views: 'int4',
  size: 'int8',
  ratio: 'float4',
  score: 'float8',
  price: 'numeric',
  active: 'bool',
  updated_at: 'timestamptz',
  day: 'date',
  tags: '_text',
  numbers: '_int4',
  payload: 'jsonb',
}
const columns: Columns = new Map(
  Object.entries(types).map(([name, type]) => [name, { name, type, alias: 'm' }]),
)

/** Values that meet each other across types: where a type is guessed wrongly, other rows come back. */
const texts = [
  "''",
  "'a'",
  "'A'",
  "'abc'",
  "'a%'",
  "'a_c'",
  "'%\\%'",
  "'a '",
  "'1'",
  "'1.1'",
  "'5'",
  "'true'",
  "'it''s'",
  "'2026-01-01'",
  "'2026-01-01 12:00:00+02'",
  "'infinity'",
  "'NaN'",
  `'{"a":1}'`,
  "'[1,2]'",
]
const numbers = [
  '0',
  '1',
  '-1',
  '5',
  '1.0',
  '1.1',
  '1.5',
  '1e2',
  '100',
  '32768',
  '2147483648',
  '-2147483648',
  '99999999999',
  '9223372036854775808',
  '1e400',
  '0x10',
]
const casts = ['text', 'int', 'bigint', 'smallint', 'float', 'real', 'bool', 'timestamptz']
const literals = [...texts, ...numbers, 'true', 'false', 'NULL']

const columnName = fc.constantFrom(...Object.keys(types))
const literal = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...literals) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom(...literals), fc.constantFrom(...casts))
      .map(([value, type]) => `(${value})::${type}`),
  },
)
const operand = fc.oneof({ weight: 2, arbitrary: columnName }, { weight: 3, arbitrary: literal })
/** A column and a literal is what people write; the rest are corners. */
const pair = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(columnName, literal) },
  { weight: 1, arbitrary: fc.tuple(operand, operand) },
)
const not = fc.constantFrom('', 'NOT ')
const leaf = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(pair, fc.constantFrom('=', '<>', '!=', '<', '<=', '>', '>='))
      .map(([[a, b], operator]) => `${a} ${operator} ${b}`),
  },
  fc
    .tuple(fc.constantFrom('id', 'title', 'code', 'padded'), not, fc.constantFrom('LIKE', 'ILIKE'), literal)
    .map((parts) => parts.join(' ')),
  fc
    .tuple(columnName, not, literal, literal)
    .map(([a, n, low, high]) => `${a} ${n}BETWEEN ${low} AND ${high}`),
  fc
    .tuple(columnName, not, fc.array(literal, { minLength: 1, maxLength: 4 }))
    .map(([a, n, items]) => `${a} ${n}IN (${items.join(', ')})`),
  fc
    .tuple(operand, not, fc.array(operand, { minLength: 1, maxLength: 3 }))
    .map(([a, n, items]) => `${a} ${n}IN (${items.join(', ')})`),
  fc.tuple(operand, fc.constantFrom('tags', 'numbers')).map(([a, array]) => `${a} = ANY(${array})`),
  fc.tuple(operand, not).map(([a, n]) => `${a} IS ${n}NULL`),
  fc.constantFrom('active', 'true', 'NULL'),
)
const { condition } = fc.letrec<{ condition: string }>((tie) => ({
  condition: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 3, arbitrary: leaf },
    fc
      .tuple(tie('condition'), fc.constantFrom('AND', 'or'), tie('condition'))
      .map(([a, op, b]) => `(${a}) ${op} (${b})`),
    tie('condition').map((inner) => `NOT (${inner})`),
  ),
}))

let relational: Relational
let compile: FilterCompiler
let compileLimited: FilterCompiler

beforeAll(async () => {
  relational = await openEmptyRelational()
  compile = await loadFilterCompiler()
  compileLimited = await loadFilterCompiler(true)
  await relational.query(`create table m (id text, title text, code varchar(8), padded char(5), small int2, views int4, size int8,
    ratio float4, score float8, price numeric, active bool, updated_at timestamptz, day date, tags text[], numbers int4[], payload jsonb)`)
  await relational.query(`insert into m values
    ('1', 'a', 'a', 'a', 1, 1, 1, 1.1, 1.1, 1.1, true, '2026-01-01', '2026-01-01', '{a,b}', '{1,5}', '{"a":1}'),
    ('2', 'A', 'A', 'A', 5, 5, 5, 1.5, 1.5, 1.5, false, '2026-01-01 12:00:00+02', '2026-06-01', '{A,5}', '{}', '[1,2]'),
    ('3', 'abc', 'abc', 'abc', 0, 0, 0, 0, 0, 0, null, '2025-01-01', null, '{}', null, '{"a": 1.0}'),
    ('4', '', '', '', -1, -1, -1, 'NaN', 'NaN', 'NaN', true, 'infinity', 'infinity', null, '{100,-1}', '"a"'),
    ('5', 'it''s', '1', '5', 100, 100, 99999999999, 100, 100, 100, false, null, '2026-01-01', '{1,1.1,NULL}', '{NULL,0}', 'null'),
    ('6', 'a%', 'a_c', '%', 16, -2147483648, 2147483648, 'infinity', 1e300, 9223372036854775808, true, '2026-01-01', '2026-01-01', '{""}', '{16}', null),
    ('7', null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)`)
  return () => relational.close()
})

async function rowsOf(where: string, params: SqlValue[] = []): Promise<string> {
  try {
    const { rows } = await relational.query<{ id: string }>(
      `select id from m where ${where} order by id`,
      params,
    )
    return rows.map(({ id }) => id).join(',')
  } catch (error) {
    return `fault of class ${sqlState(error)?.slice(0, 2) ?? String(error)}`
  }
}

test('accepted conditions select the same rows as plain SQL, or fail the same way', async () => {
  const seen = { accepted: 0, selecting: 0, refused: 0, limited: 0 }
  await fc.assert(
    fc.asyncProperty(condition, async (text) => {
      let emitted: ReturnType<FilterCompiler>
      try {
        emitted = compile(text, columns)
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'invalid_filter') throw error
        seen.refused++
        return
      }
      const plain = await rowsOf(`(${text}\n)`)
      expect(await rowsOf(emitted.sql, emitted.params)).toBe(plain)
      seen.accepted++
      if (/^\d/.test(plain)) seen.selecting++
      const limited = compileLimited(text, columns)
      if (limited.limited) seen.limited++
      const { sql, params } = limited.limited ? withTimeLimit(limited, 3_600_000) : limited
      expect(await rowsOf(sql, params)).toBe(plain)
    }),
    { numRuns: propertyRuns(1_500) },
  )
  // A property that refuses everything would hold, too.
  expect(seen.accepted).toBeGreaterThan(300)
  expect(seen.selecting).toBeGreaterThan(100)
  expect(seen.limited).toBeGreaterThan(50)
})
