/** How records lie in the embedded log's file: both kinds of tables keep, find and remove the same records. */

import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createCursor, prepare, takeRecords, weigh } from '#engines/event-log/embedded/record-block.ts'
import {
  createRecordTable,
  type Kind,
  openRecordReader,
  openRecordTable,
} from '#engines/event-log/embedded/record-tables.ts'
import type { NewRecord, StoredRecord } from '#engines/event-log/port.ts'
import { packRecords } from '#test/support/pack-records.ts'
import { recordParts } from '#test/support/record-parts.ts'

/** Records of one append, at one time. */
interface Append {
  records: NewRecord[]
  timestamp: number
}

function openTable(kind: Kind) {
  const db = new DatabaseSync(':memory:')
  createRecordTable(db, 1, kind)
  const table = openRecordTable(db, 1, kind)
  const fetch = openRecordReader(db, 1, kind)
  const end = () => (table.last()?.offset ?? -1) + 1
  return {
    table,
    db,
    end,
    add({ records, timestamp }: Append): void {
      const cursor = createCursor(packRecords(records, timestamp), records.length)
      table.insert(cursor, records.length, end())
    },
    read(position: number, bytesMax: number): StoredRecord[] {
      const { records, block } = fetch(position, bytesMax)
      return takeRecords(createCursor(block, records), records, 0)
    },
    rows: () => db.prepare('select count(*) as n from p1').get()?.n,
  }
}

const of = (...sizes: number[]): Append => ({
  timestamp: 1,
  records: sizes.map((size) => ({ key: Buffer.from('k'), value: Buffer.alloc(size, 'v'), headers: {} })),
})

const part = fc.option(fc.uint8Array({ maxLength: 30 }).map((array) => Buffer.from(array)))
const record = fc.record({
  key: part,
  value: part,
  headers: fc.dictionary(fc.string({ maxLength: 5 }), fc.string({ maxLength: 9 }), { maxKeys: 2 }),
})
const appends = fc
  .array(fc.array(record, { minLength: 1, maxLength: 6 }), { maxLength: 8 })
  .map((all): Append[] => all.map((records, i) => ({ records, timestamp: 1_000 + i })))

describe.each<Kind>(['rows', 'batches'])('records in %s', (kind) => {
  test('from any position come the records behind it, as many as fit, and always one', () => {
    fc.assert(
      fc.property(appends, fc.nat(50), fc.nat(120), (all, position, bytesMax) => {
        const table = openTable(kind)
        for (const one of all) table.add(one)
        const stored = all
          .flatMap(({ records, timestamp }) => records.map((one) => ({ ...one, timestamp })))
          .map((one, offset) => ({ partition: 0, offset, ...one, headers: { ...one.headers } }))
        expect(table.end()).toBe(stored.length)
        expect(table.table.last()?.timestamp).toBe(stored.at(-1)?.timestamp)
        const expected = []
        let bytes = 0
        for (const one of stored.slice(position)) {
          bytes += weigh(prepare(one))
          if (expected.length > 0 && bytes > bytesMax) break
          expected.push(one)
        }
        expect(table.read(position, bytesMax).map(recordParts)).toEqual(expected)
      }),
    )
  })

  test('the first record that is young enough is found, but none below the start', async () => {
    await fc.assert(
      fc.asyncProperty(appends, fc.nat(50), fc.nat(10), async (all, startAt, age) => {
        const table = openTable(kind)
        for (const one of all) table.add(one)
        const times = all.flatMap(({ records, timestamp }) => records.map(() => timestamp))
        const start = Math.min(startAt, times.length)
        const young = times.findIndex((time, offset) => offset >= start && time >= 1_000 + age)
        expect(await table.table.findUnexpired(start, 1_000 + age)).toBe(young < 0 ? times.length : young)
      }),
    )
  })

  test('records below the start are removed, and none above it', () => {
    fc.assert(
      fc.property(appends, fc.nat(50), (all, start) => {
        const table = openTable(kind)
        for (const one of all) table.add(one)
        const end = table.end()
        const before = table.read(start, 1_000_000).map(recordParts)
        while (table.table.purge(start));
        expect(table.table.purge(start)).toBe(false)
        expect(table.read(start, 1_000_000).map(recordParts)).toEqual(before)
        if (start >= end) expect(table.rows()).toBe(0)
      }),
    )
  })
})

describe('batches', () => {
  test('an append is one row, a large one several, and a record above a row has its own', () => {
    const table = openTable('batches')
    table.add(of(...new Array<number>(1_000).fill(10)))
    expect(table.rows()).toBe(1)
    table.add(of(...new Array<number>(2_500).fill(10)))
    expect(table.rows()).toBe(4)
    table.add(of(10, 200_000, 10, 60_000, 6_000, 500))
    expect(table.db.prepare('select first, last from p1 where first >= 3500').all()).toEqual([
      { first: 3_500, last: 3_500 },
      { first: 3_501, last: 3_501 },
      { first: 3_502, last: 3_503 },
      { first: 3_504, last: 3_505 },
    ])
  })

  test('one fetch reads on over rows, and ends within one', () => {
    const table = openTable('batches')
    for (let i = 0; i < 10; i++) table.add(of(...new Array<number>(10).fill(99)))
    expect(table.read(5, 2_500).map((one) => one.offset)).toEqual(Array.from({ length: 25 }, (_, i) => 5 + i))
  })

  test('one transaction removes a megabyte at most, and goes on with the next', () => {
    const table = openTable('batches')
    for (let i = 0; i < 40; i++) table.add(of(60_000))
    expect(table.table.purge(39)).toBe(true)
    expect(table.rows()).toBe(40 - 17)
    expect(table.table.purge(39)).toBe(true)
    expect(table.table.purge(39)).toBe(true)
    expect(table.rows()).toBe(1)
    expect(table.table.purge(39)).toBe(false)
  })
})
