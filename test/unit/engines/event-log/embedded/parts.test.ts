/** The parts of the embedded event log that are pure: packing records, taking turns. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createCursor, prepare, takeRecords, weigh } from '#engines/event-log/embedded/record-block.ts'
import type { PartitionState } from '#engines/event-log/embedded/topics.ts'
import { type Append, createWaitingAppends } from '#engines/event-log/embedded/write-queue.ts'
import type { NewRecord } from '#engines/event-log/port.ts'
import { packRecords } from '#test/support/pack-records.ts'
import { recordParts } from '#test/support/record-parts.ts'

describe('packing records', () => {
  const bytes = fc.option(fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array)))
  const headers = fc.dictionary(
    fc.string({ unit: 'binary', maxLength: 8 }),
    fc.string({ unit: 'binary', maxLength: 12 }),
  )
  const records = fc.array(fc.record({ key: bytes, value: bytes, headers }), { maxLength: 20 })

  const pack = (all: NewRecord[]) => packRecords(all, 1_700_000_000_123)

  test('records come out as they went in, with the offsets counted up', () => {
    fc.assert(
      fc.property(records, (all) => {
        const taken = takeRecords(createCursor(pack(all), all.length), all.length, 3, 70)
        expect(taken.map(recordParts)).toEqual(
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
        expect(takeRecords(skipped.fork(), rest, 0).map(recordParts)).toEqual(
          takeRecords(read, rest, 0).map(recordParts),
        )
      }),
    )
  })

  test('one header is found among any others, and none where it is not', () => {
    const plain = fc.constantFrom('event-id', 'event', 'id', 'occurred-at', 'x,"event-id')
    const named = fc.dictionary(fc.oneof(plain, fc.string({ unit: 'binary', maxLength: 8 })), fc.string())
    fc.assert(
      fc.property(bytes, bytes, named, (key, value, odd) => {
        const [taken] = takeRecords(createCursor(pack([{ key, value, headers: odd }]), 1), 1, 0)
        for (const name of ['event-id', 'id', 'never written', 'toString']) {
          const text = Object.hasOwn(odd, name) ? odd[name] : undefined
          expect(taken!.headerBytes?.(name)?.toString()).toBe(
            text === undefined ? text : Buffer.from(text).toString(),
          )
        }
      }),
    )
  })

  test('a record weighs what its parts weigh', () => {
    fc.assert(
      fc.property(records, (all) => {
        const taken = takeRecords(createCursor(pack(all), all.length), all.length, 0)
        expect(taken.map((one) => one.bytes)).toEqual(all.map((one) => weigh(prepare(one))))
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

describe('appends that wait', () => {
  const states = [0, 1, 2].map((partition) => ({ partition }) as PartitionState)
  const append = (state: number, bytes: number): Append => ({
    state: states[state]!,
    records: [{ key: null, value: null, headers: '' }],
    bytes,
    holder: 0,
    resolve() {},
    reject() {},
  })

  test('each partition keeps its order, every batch takes something, and nothing is left behind', () => {
    const sizes = fc.constantFrom(10, 20_000, 100_000, 600_000)
    const added = fc.array(fc.tuple(fc.nat(2), sizes), { maxLength: 60 })
    fc.assert(
      fc.property(added, fc.nat(3), (all, takesBetween) => {
        const waiting = createWaitingAppends()
        const taken: Append[] = []
        const appends = all.map(([state, bytes]) => append(state, bytes))
        for (const one of appends) {
          waiting.add(one)
          if (takesBetween > 0 && appends.indexOf(one) % (takesBetween * 5) === 0)
            taken.push(...waiting.take())
        }
        while (!waiting.empty()) {
          const batch = waiting.take()
          expect(batch.length).toBeGreaterThan(0)
          taken.push(...batch)
        }
        for (const state of states) {
          expect(taken.filter((one) => one.state === state)).toEqual(
            appends.filter((one) => one.state === state),
          )
        }
      }),
    )
  })

  test('a small append passes the large ones of other partitions, and large ones take turns', () => {
    const waiting = createWaitingAppends()
    const [a, b, c] = [append(0, 600_000), append(0, 600_000), append(1, 600_000)]
    const small = append(2, 100)
    for (const one of [a, b, c, small]) waiting.add(one)
    expect(waiting.take()).toEqual([small])
    expect(waiting.take(true)).toEqual([])
    expect(waiting.take()).toEqual([a])
    expect(waiting.take()).toEqual([c])
    expect(waiting.take()).toEqual([b])
    expect(waiting.empty()).toBe(true)
  })

  test('small appends that keep coming never starve a large one', () => {
    const waiting = createWaitingAppends()
    const large = append(0, 600_000)
    waiting.add(large)
    waiting.add(append(1, 100))
    expect(waiting.take()).toHaveLength(1)
    waiting.add(append(1, 100))
    expect(waiting.take()).toEqual([large])
    expect(waiting.take()).toHaveLength(1)
    expect(waiting.empty()).toBe(true)
  })

  test('one whose time is over leaves; one that was taken does not', () => {
    const waiting = createWaitingAppends()
    const [a, b] = [append(0, 10), append(0, 600_000)]
    waiting.add(a)
    waiting.add(b)
    expect(waiting.remove(a)).toBe(true)
    expect(waiting.remove(a)).toBe(false)
    expect(waiting.take()).toEqual([b])
    expect(waiting.remove(b)).toBe(false)
  })

  test('pending appends are bounded, and a large one is accepted when it is alone', () => {
    const waiting = createWaitingAppends()
    const large = append(0, 100_000_000)
    waiting.add(large)
    expect(() => waiting.add(append(0, 1))).toThrow(expect.objectContaining({ code: 'overloaded' }))
    waiting.add(append(1, 60_000_000))
    expect(waiting.take()).toHaveLength(1)
    expect(() => waiting.add(append(0, 1))).toThrow(expect.objectContaining({ code: 'overloaded' }))
    waiting.settle(large)
    waiting.add(append(0, 1))
    waiting.add(append(2, 60_000_000))
    waiting.add(append(2, 1))
    expect(() => waiting.add(append(1, 250_000_000))).toThrow(expect.objectContaining({ code: 'overloaded' }))
  })
})
