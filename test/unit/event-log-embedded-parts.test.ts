/** The parts of the embedded event log that are pure: sharing out partitions, packing records. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { shareOut } from '#engines/event-log/embedded/assignment.ts'
import {
  createCursor,
  packPrepared,
  prepare,
  takeRecords,
  weigh,
} from '#engines/event-log/embedded/record-block.ts'
import type { NewRecord } from '#engines/event-log/port.ts'

describe('sharing out partitions', () => {
  /** Members of which each owns some of the partitions, none shared. */
  const ownership = fc
    .tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 8 }))
    .chain(([partitions, members]) =>
      fc
        .array(fc.integer({ min: -1, max: members - 1 }), { minLength: partitions, maxLength: partitions })
        .map((owners) => ({
          partitions,
          owned: Array.from({ length: members }, (_, m) =>
            owners.flatMap((owner, p) => (owner === m ? [p] : [])),
          ),
        })),
    )

  test('every partition has one owner, and shares differ by one at most', () => {
    fc.assert(
      fc.property(ownership, ({ partitions, owned }) => {
        const next = shareOut(partitions, owned)
        expect(next.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: partitions }, (_, p) => p))
        const sizes = next.map((has) => has.length)
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1)
      }),
    )
  })

  test('a member loses a partition only when it has more than its share', () => {
    fc.assert(
      fc.property(ownership, ({ partitions, owned }) => {
        for (const [m, has] of shareOut(partitions, owned).entries()) {
          const lost = owned[m]!.filter((p) => !has.includes(p))
          if (lost.length > 0) expect(has.every((p) => owned[m]!.includes(p))).toBe(true)
        }
      }),
    )
  })

  test('what is shared out evenly stays where it is', () => {
    fc.assert(
      fc.property(ownership, ({ partitions, owned }) => {
        const next = shareOut(partitions, owned)
        expect(shareOut(partitions, next)).toEqual(next)
      }),
    )
  })

  test('without members nothing is shared out', () => {
    expect(shareOut(3, [])).toEqual([])
  })
})

describe('packing records', () => {
  const bytes = fc.option(fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array)))
  const headers = fc.dictionary(
    fc.string({ unit: 'binary', maxLength: 8 }),
    fc.string({ unit: 'binary', maxLength: 12 }),
  )
  const records = fc.array(fc.record({ key: bytes, value: bytes, headers }), { maxLength: 20 })

  const pack = (all: NewRecord[]) => {
    const prepared = all.map(prepare)
    return packPrepared(
      prepared,
      prepared.reduce((sum, one) => sum + weigh(one), 0),
      1_700_000_000_123,
    )
  }

  test('records come out as they went in, with the offsets counted up', () => {
    fc.assert(
      fc.property(records, (all) => {
        const taken = takeRecords(createCursor(pack(all), all.length), all.length, 3, 70)
        expect(taken).toEqual(
          all.map((one, i) => ({
            partition: 3,
            offset: 70 + i,
            timestamp: 1_700_000_000_123,
            key: one.key,
            value: one.value,
            headers: { ...one.headers },
          })),
        )
      }),
    )
  })

  test('skipping lands on the same record as reading', () => {
    fc.assert(
      fc.property(records, fc.nat(20), (all, n) => {
        const count = Math.min(n, all.length)
        const [read, skipped] = [createCursor(pack(all), all.length), createCursor(pack(all), all.length)]
        takeRecords(read, count, 0)
        skipped.skip(count)
        const rest = all.length - count
        expect(takeRecords(skipped.fork(), rest, 0)).toEqual(takeRecords(read, rest, 0))
      }),
    )
  })

  test('a header called __proto__ is one like any other', () => {
    const odd = JSON.parse('{"__proto__": "x", "constructor": "y"}')
    const [taken] = takeRecords(createCursor(pack([{ key: null, value: null, headers: odd }]), 1), 1, 0)
    expect(Object.entries(taken!.headers)).toEqual([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ])
  })
})
