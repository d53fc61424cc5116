/** Promises of every relational driver. */

import { beforeEach, describe, expect, test } from 'vitest'
import { type Relational, type SqlExecutor, type SqlValue, sqlState } from '#engines/relational/port.ts'
import { eventually } from '../support/eventually.ts'
import { describeCopy } from './relational-copy.contract.ts'
import { type RelationalHarness, useRelational } from './relational-harness.ts'
import { describeMigrations } from './relational-migrations.contract.ts'

export function describeRelational(driver: string, harness: RelationalHarness): void {
  describe(`relational: ${driver}`, () => {
    describeStatements(harness)
    describeTransactions(harness)
    describeSignals(harness)
    describeCopy(harness)
    describeMigrations(harness)
  })
}

function describeStatements(harness: RelationalHarness): void {
  const db = useRelational(harness)
  const one = async (text: string, params?: SqlValue[]) =>
    (await db().query<{ value: unknown }>(text, params)).rows[0]!.value

  test.each<[string, unknown]>([
    ['9007199254740991::int8', 9007199254740991],
    ['-5::int4', -5],
    ['1.5::float8', 1.5],
    ['true', true],
    ['null::text', null],
    [`'2026-01-02 03:04:05.678+00'::timestamptz`, new Date('2026-01-02T03:04:05.678Z')],
    [`'{"a": [1, null, "x"]}'::jsonb`, { a: [1, null, 'x'] }],
    [`'\\x00ff10'::bytea`, Buffer.from([0, 255, 16])],
    [
      `array['a', 'b,c', 'd"e', 'f\\g', '', 'NULL', null, '{h}']`,
      ['a', 'b,c', 'd"e', 'f\\g', '', 'NULL', null, '{h}'],
    ],
    ['array[1, 2]::int8[]', [1, 2]],
    [`'{}'::text[]`, []],
    [`'[1,2.5,-3]'::vector`, '[1,2.5,-3]'],
    ['12345678901234567890.5::numeric', '12345678901234567890.5'],
    ['count(*)', 1],
  ])('select %s gives the port’s type', async (expression, expected) => {
    expect(await one(`select ${expression} as value`)).toEqual(expected)
  })

  test.each<[string, SqlValue, unknown]>([
    ['text', `it's "quoted" \\ ünï 🙂\n`, `it's "quoted" \\ ünï 🙂\n`],
    ['text', '', ''],
    ['int8', 2 ** 53 - 1, 2 ** 53 - 1],
    ['int8', 10n, 10],
    ['float8', 0.1, 0.1],
    ['bool', false, false],
    ['text', null, null],
    ['timestamptz', new Date('2026-11-21T10:00:00.001Z'), new Date('2026-11-21T10:00:00.001Z')],
    ['bytea', Buffer.from([0, 1, 254, 255]), Buffer.from([0, 1, 254, 255])],
    ['jsonb', { a: { b: [1, 'x'] }, '': null }, { a: { b: [1, 'x'] }, '': null }],
    ['jsonb', '[1, 2]', [1, 2]],
    [
      'text[]',
      ['a', 'b,c', '"', '\\', '{}', '', 'NULL', null],
      ['a', 'b,c', '"', '\\', '{}', '', 'NULL', null],
    ],
    ['int8[]', [1, 2, 3], [1, 2, 3]],
    ['text[]', [], []],
  ])('a parameter of type %s arrives as it was sent', async (type, value, expected) => {
    expect(await one(`select $1::${type} as value`, [value])).toEqual(expected)
  })

  test('a vector travels as an array of numbers that is cast', async () => {
    expect(
      await one('select 1 - ($1::real[]::vector(3) <=> $2::real[]::vector(3)) as value', [
        [1, 0, 0],
        [2, 0, 0],
      ]),
    ).toBe(1)
  })

  test('rowCount counts the rows changed or returned', async () => {
    await db().query('create table counted (n int)')
    expect((await db().query('insert into counted select generate_series(1, 5)')).rowCount).toBe(5)
    expect((await db().query('update counted set n = n + 1 where n > $1', [3])).rowCount).toBe(2)
    expect((await db().query('select * from counted')).rowCount).toBe(5)
    expect((await db().query('delete from counted where n = 99')).rowCount).toBe(0)
  })

  test('without parameters several statements run in order, and the last result counts', async () => {
    const result = await db().query(
      'create table several (n int); insert into several values (7); select n from several',
    )
    expect(result.rows).toEqual([{ n: 7 }])
  })

  test('a repeated statement follows its text, even after its table has changed', async () => {
    await db().query('create table changing (a int); insert into changing values (1), (2)')
    const read = async (a: number) =>
      (await db().query('select * from changing where a > $1 order by a', [a])).rows
    for (const a of [0, 1, 0]) expect(await read(a)).toEqual(a === 0 ? [{ a: 1 }, { a: 2 }] : [{ a: 2 }])
    await db().query(`alter table changing add column b text default 'x'`)
    for (const _ of [1, 2, 3]) expect(await read(1)).toEqual([{ a: 2, b: 'x' }])
    await db().query(
      'drop table changing; create table changing (a int8, c bool); insert into changing values (3, true)',
    )
    for (const _ of [1, 2, 3]) expect(await read(1)).toEqual([{ a: 3, c: true }])
  })

  test('a statement that failed works when it comes again', async () => {
    const cast = (value: string) => db().query('select $1::text::int as n', [value])
    for (const _ of [1, 2, 3]) await expect(cast('x')).rejects.toMatchObject({ code: '22P02' })
    for (const n of [1, 2, 3]) expect((await cast(`${n}`)).rows).toEqual([{ n }])
    await expect(cast('y')).rejects.toMatchObject({ code: '22P02' })
    const missing = () => db().query('select n from missing where n = $1', [1])
    for (const _ of [1, 2, 3]) await expect(missing()).rejects.toMatchObject({ code: '42P01' })
    await db().query('create table missing (n int); insert into missing values (1)')
    expect((await missing()).rows).toEqual([{ n: 1 }])
  })

  test('faults keep their SQLSTATE', async () => {
    await db().query('create table once (n int primary key); insert into once values (1)')
    const fault = await db()
      .query('insert into once values (1)')
      .catch((error: unknown) => error)
    expect(sqlState(fault)).toBe('23505')
    expect(
      sqlState(
        await db()
          .query('select * from nowhere')
          .catch((error: unknown) => error),
      ),
    ).toBe('42P01')
    expect(
      sqlState(
        await db()
          .query('not sql')
          .catch((error: unknown) => error),
      ),
    ).toBe('42601')
    expect((await db().query('select 1 as n')).rows).toEqual([{ n: 1 }])
  })

  test('messages are short and never carry a parameter', async () => {
    const secret = `secret-${'x'.repeat(3_000_000)}`
    for (const cast of ['int', 'text[]', 'jsonb', 'timestamptz', 'vector']) {
      const fault = (await db()
        .query(`select $1::${cast}`, [secret])
        .catch((error: unknown) => error)) as Error
      expect(fault).toBeInstanceOf(Error)
      expect(fault.message.length).toBeLessThanOrEqual(301)
      expect(JSON.stringify([fault.message, { ...fault }, fault.cause ?? null])).not.toContain('secret-')
    }
    const range = (await db()
      .query('select $1::int', ['99999999999'])
      .catch((error: unknown) => error)) as Error
    expect(range.message).not.toContain('99999999999')
  })

  test('many statements at once all get their own answers', async () => {
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, n) => one('select $1::int as value', [n])),
    )
    expect(answers).toEqual(Array.from({ length: 200 }, (_, n) => n))
  })

  test('ping answers', async () => {
    await db().ping()
  })

  test('close may be called twice; afterwards calls fail with a code', async () => {
    const other = await harness.open()
    await other.close()
    await other.close()
    await expect(other.query('select 1')).rejects.toMatchObject({ code: 'shutting_down' })
  })
}

function describeTransactions(harness: RelationalHarness): void {
  const db = useRelational(harness)
  beforeEach(async () => {
    await db().query('drop table if exists kept; create table kept (n int primary key)')
  })
  const kept = async () =>
    (await db().query<{ n: number }>('select n from kept order by n')).rows.map(({ n }) => n)

  test('its writes are there when it resolves, and it returns the value of the work', async () => {
    const value = await db().transaction(async (tx) => {
      await tx.query('insert into kept values (1)')
      return (await tx.query<{ n: number }>('select n from kept')).rows[0]!.n
    })
    expect(value).toBe(1)
    expect(await kept()).toEqual([1])
  })

  test('nothing is kept when work throws, and its own error is thrown', async () => {
    const fault = new Error('mine')
    await expect(
      db().transaction(async (tx) => {
        await tx.query('insert into kept values (1)')
        throw fault
      }),
    ).rejects.toBe(fault)
    expect(await kept()).toEqual([])
  })

  test('a failed statement that work ignores still fails the transaction', async () => {
    await expect(
      db().transaction(async (tx) => {
        await tx.query('insert into kept values (1)')
        await tx.query('select 1 / 0').catch(() => {})
      }),
    ).rejects.toThrow(/rolled back/)
    expect(await kept()).toEqual([])
  })

  test('using the port inside throws at once instead of waiting for ever', async () => {
    const forbidden: ((relational: Relational) => Promise<unknown>)[] = [
      (relational) => relational.query('select 1'),
      (relational) => relational.transaction(async () => {}),
      (relational) => relational.ping(),
    ]
    for (const use of forbidden) {
      await expect(db().transaction(() => use(db()))).rejects.toThrow(/Inside a transaction only its tx/)
    }
    expect(await kept()).toEqual([])
  })

  test('work that outlives its transaction may use the port again', async () => {
    const later = await db().transaction(async () => {
      return {
        work: new Promise<void>((resolve) => setTimeout(resolve, 50)).then(() => db().query('select 1')),
      }
    })
    expect((await later.work).rowCount).toBe(1)
  })

  test('tx is of no use after the end', async () => {
    let kept: SqlExecutor | undefined
    await db().transaction(async (tx) => {
      kept = tx
    })
    await expect(kept!.query('select 1')).rejects.toThrow(/has ended/)
  })

  test('statements that are not waited for are part of it and run in order', async () => {
    await db().transaction(async (tx) => {
      await Promise.all([1, 2, 3].map((n) => tx.query('insert into kept values ($1)', [n])))
      void tx.query('insert into kept values (4)')
    })
    expect(await kept()).toEqual([1, 2, 3, 4])
  })

  test('other callers see nothing before the commit and everything after', async () => {
    const inside = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    const transaction = db().transaction(async (tx) => {
      await tx.query('insert into kept values (1)')
      inside.resolve()
      await goOn.promise
    })
    await inside.promise
    // The embedded engine lets this wait until the transaction is over; a server answers at once.
    const seen = kept()
    setTimeout(goOn.resolve, 30)
    await transaction
    expect([[], [1]]).toContainEqual(await seen)
    expect(await kept()).toEqual([1])
  })

  test('a setting of one transaction is gone in the next call', async () => {
    await db().transaction((tx) => tx.query(`set local statement_timeout = '4321ms'`))
    expect((await db().query('show statement_timeout')).rows[0]).not.toEqual({ statement_timeout: '4321ms' })
  })

  test('many transactions at once neither mix nor lose anything', async () => {
    await db().query('insert into kept values (0)')
    await Promise.all(
      Array.from({ length: 40 }, () =>
        db().transaction(async (tx) => {
          await tx.query('select n from kept for update')
          await tx.query('update kept set n = n + 1')
        }),
      ),
    )
    expect(await kept()).toEqual([40])
  })
}

function describeSignals(harness: RelationalHarness): void {
  const db = useRelational(harness)

  test('a signal reaches every listener of its channel until it stops listening', async () => {
    const first: string[] = []
    const second: string[] = []
    const stop = await db().listen('news', (payload) => first.push(payload))
    await db().listen('news', (payload) => second.push(payload))
    await db().listen('other', () => second.push('never'))
    await db().query(`select pg_notify('news', $1)`, ['one'])
    await eventually('both are notified', () => first.length === 1 && second.length === 1)
    await stop()
    await db().query(`notify news, 'two'`)
    await eventually('the second is notified', () => second.length === 2)
    expect(first).toEqual(['one'])
    expect(second).toEqual(['one', 'two'])
  })

  test('a signal of a transaction comes with its commit, and never when it is rolled back', async () => {
    const payloads: string[] = []
    await db().listen('committed', (payload) => payloads.push(payload))
    await db()
      .transaction(async (tx) => {
        await tx.query(`notify committed, 'lost'`)
        throw new Error('no')
      })
      .catch(() => {})
    await db().transaction((tx) => tx.query(`notify committed, 'kept'`))
    await eventually('notified', () => payloads.length > 0)
    expect(payloads).toEqual(['kept'])
  })
}
