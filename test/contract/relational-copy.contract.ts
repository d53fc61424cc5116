/** Promises of every relational driver about bulk loads. */

import { beforeEach, describe, expect, test } from 'vitest'
import { type CopyColumn, type CopyValue, sqlState } from '#engines/relational/port.ts'
import { type RelationalHarness, useRelational } from './relational-harness.ts'

const columns: CopyColumn[] = [
  { name: 'id', type: 'text' },
  { name: 'at', type: 'timestamptz' },
  { name: 'doc', type: 'jsonb' },
  { name: 'tags', type: 'text[]' },
  { name: 'v', type: 'vector' },
]

export function describeCopy(harness: RelationalHarness): void {
  describe('copy', () => {
    const db = useRelational(harness)
    beforeEach(async () => {
      await db().query(
        `drop schema if exists bulk cascade; create schema bulk;
         create table bulk.rows (id text primary key, at timestamptz, doc jsonb, tags text[], v vector(3));
         create table bulk.vectors (id text, v vector(1536))`,
      )
    })
    const copy = (table: string, of: CopyColumn[], rows: Iterable<CopyValue[]>) =>
      db().transaction((tx) => tx.copy(table, of, rows))
    const countOf = async (table: string) =>
      (await db().query<{ n: number }>(`select count(*) as n from ${table}`)).rows[0]!.n

    test('inside of a transaction it lives and dies with it', async () => {
      const two: CopyColumn[] = [
        { name: 'id', type: 'text' },
        { name: 'doc', type: 'jsonb' },
      ]
      const inside = await db().transaction(async (tx) => {
        await tx.copy('bulk.rows', two, [['a', {}]])
        return (await tx.query('select id from bulk.rows')).rows
      })
      expect(inside).toEqual([{ id: 'a' }])
      const failing = db().transaction(async (tx) => {
        expect(await tx.copy('bulk.rows', two, [['b', {}]])).toBe(1)
        throw new Error('undone')
      })
      await expect(failing).rejects.toThrow('undone')
      expect(await countOf('bulk.rows')).toBe(1)
    })

    test('every type arrives as it was given, nulls included', async () => {
      const row: CopyValue[] = [
        `it's "1" \\ \t\n ü🙂`,
        new Date('1999-12-31T23:59:59.999Z'),
        { a: [1, null, 'x'], '': {} },
        ['a', 'b,c', '"', '', 'NULL'],
        new Float32Array([1.5, -2, 3e-7]),
      ]
      const nulls: CopyValue[] = ['nulls', null, null, null, null]
      const empty: CopyValue[] = ['', new Date('2026-11-21T00:00:00Z'), {}, [], null]
      expect(await copy('bulk.rows', columns, [row, nulls, empty])).toBe(3)
      const { rows } = await db().query('select * from bulk.rows order by id desc')
      expect(rows[0]).toEqual({
        id: 'nulls',
        at: null,
        doc: null,
        tags: null,
        v: null,
      })
      expect(rows[1]).toEqual({
        id: row[0],
        at: row[1],
        doc: row[2],
        tags: row[3],
        v: '[1.5,-2,3e-07]',
      })
      expect(rows[2]).toMatchObject({ id: '', doc: {}, tags: [] })
    })

    test('thousands of vectors arrive exactly, also from a view into a larger buffer', async () => {
      const all = Float32Array.from({ length: 1536 * 3_000 }, (_, n) => Math.fround(Math.sin(n)))
      function* rows(): Generator<CopyValue[]> {
        for (let n = 0; n < 3_000; n++) yield [`p${n}`, all.subarray(n * 1536, (n + 1) * 1536)]
      }
      expect(
        await copy(
          'bulk.vectors',
          [
            { name: 'id', type: 'text' },
            { name: 'v', type: 'vector' },
          ],
          rows(),
        ),
      ).toBe(3_000)
      const { rows: found } = await db().query<{ v: string }>(`select v from bulk.vectors where id = 'p2999'`)
      const values = JSON.parse(found[0]!.v) as number[]
      expect(Float32Array.from(values)).toEqual(all.slice(2999 * 1536))
      expect(await countOf('bulk.vectors')).toBe(3_000)
    })

    test('copying no rows works', async () => {
      expect(await copy('bulk.rows', columns, [])).toBe(0)
    })

    test('one bad row keeps all of them out, and the engine goes on', async () => {
      const rows: CopyValue[][] = [1, 2, 1].map((n) => [String(n), null, null, null, null])
      const fault = await copy('bulk.rows', columns, rows).catch((error: unknown) => error)
      expect(sqlState(fault)).toBe('23505')
      const wrong = await copy('bulk.rows', columns, [['x', null, null, null, new Float32Array(2)]]).catch(
        (error: unknown) => error,
      )
      expect(sqlState(wrong)).toBe('22000')
      expect(await countOf('bulk.rows')).toBe(0)
      expect(await copy('bulk.rows', columns, [['y', null, null, null, null]])).toBe(1)
    })

    test('rows whose source throws are not kept, and its error is thrown', async () => {
      const fault = new Error('the source failed')
      function* rows(): Generator<CopyValue[]> {
        yield ['a', null, null, null, null]
        throw fault
      }
      await expect(copy('bulk.rows', columns, rows())).rejects.toMatchObject({ message: fault.message })
      expect(await countOf('bulk.rows')).toBe(0)
      await db().ping()
    })

    test('an unknown table is a fault with its SQLSTATE', async () => {
      const fault = await copy('bulk.nowhere', columns, []).catch((error: unknown) => error)
      expect(sqlState(fault)).toBe('42P01')
    })
  })
}
