/** What consumers remember has one bound in bytes, however many partitions a process owns. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { budgets } from '#lib/budgets.ts'
import { Bookkeeping, bookkeepingOf, EventIdRing, shareOf } from '#runtime/consume/event-ids.ts'
import { ringIdsMax, ringIdsMin, windowBytes } from '#runtime/consume/limits.ts'
import { Window } from '#runtime/consume/window.ts'

const mebibyte = 2 ** 20
const idOf = (partition: number, n: number) => Buffer.from(`${partition}-${n}`)

function fill(ring: EventIdRing, partition: number, from: number, to: number): void {
  for (let n = from; n < to; n++)
    if (!ring.add(idOf(partition, n))) throw new Error(`${n} was taken for a repeat`)
}

test('1,000 partitions of a courier remember 64 MiB together, each its newest ids, and forget no repeat of these', () => {
  const memory = new Bookkeeping()
  const rings = Array.from({ length: 1_000 }, () => new EventIdRing(ringIdsMax, memory))
  const each = 6_000
  for (const [partition, ring] of rings.entries()) {
    fill(ring, partition, 0, each)
    expect(memory.bytes).toBeLessThanOrEqual(budgets.consumers.rememberedBytes)
  }
  expect(memory.bytes).toBe(rings.reduce((sum, ring) => sum + ring.bytes, 0))
  for (const [partition, ring] of rings.entries()) {
    for (let n = each - ringIdsMin; n < each; n++) {
      if (ring.add(idOf(partition, n))) throw new Error(`${partition}-${n} was forgotten`)
    }
  }
  for (const ring of rings) ring.close()
  expect(memory.bytes).toBe(0)
})

test('a partition at work takes room from those that rest longest', () => {
  const full = new EventIdRing().bytes * 64
  const memory = new Bookkeeping(3 * full)
  const [oldest, newer, busy] = [0, 1, 2].map(() => new EventIdRing(ringIdsMax, memory)) as [
    EventIdRing,
    EventIdRing,
    EventIdRing,
  ]
  fill(oldest, 0, 0, ringIdsMax)
  fill(newer, 1, 0, ringIdsMax)
  expect([oldest.bytes, newer.bytes]).toEqual([full, full])
  const fourth = new EventIdRing(ringIdsMax, memory)
  fill(busy, 2, 0, ringIdsMax)
  fill(fourth, 3, 0, 20_000)
  expect([newer.bytes, busy.bytes]).toEqual([full, full])
  expect(oldest.bytes).toBeLessThan(full)
  expect(memory.bytes).toBeLessThanOrEqual(3 * full)
  // The newest that fit are still known.
  expect(oldest.add(idOf(0, ringIdsMax - 1))).toBe(false)
  expect(oldest.add(idOf(0, 0))).toBe(true)
})

test('a ring that had no room remembers its newest ids in order, and grows once there is room', () => {
  const memory = new Bookkeeping(new EventIdRing().bytes * 3)
  const other = new EventIdRing(ringIdsMax, memory)
  fill(other, 1, 0, ringIdsMin)
  const ring = new EventIdRing(ringIdsMax, memory)
  fill(ring, 0, 0, 5 * ringIdsMin + 100)
  const kept = ring.bytes / other.bytes
  expect(kept).toBe(2)
  other.close()
  const more = new EventIdRing(ringIdsMax, memory)
  more.close()
  fill(ring, 0, 5 * ringIdsMin + 100, 20 * ringIdsMin + 100)
  const total = 20 * ringIdsMin + 100
  for (let n = total - 2 * ringIdsMin; n < total; n++) expect(ring.add(idOf(0, n))).toBe(false)
})

test('windows and remembered ids count in the memory of the group', () => {
  expect(shareOf(64, 0) - shareOf(64, 64 * mebibyte)).toBe(mebibyte)
  expect(shareOf(32, 0)).toBe(budgets.consumers.groupBytes / 32 - windowBytes)
  expect(windowBytes * 1_000).toBeLessThan(10 * mebibyte)
})

test('all groups of a process share one budget', () => {
  const [one, other] = [{}, {}]
  expect(bookkeepingOf(one)).toBe(bookkeepingOf(one))
  expect(bookkeepingOf(one)).not.toBe(bookkeepingOf(other))
})

test('a window passes offsets that are missing from the log, in whatever order records are settled', () => {
  const window = new Window(100)
  for (const offset of [100, 103, 9_000, 16_483]) window.admit(offset)
  expect([window.watermark, window.span, window.open, window.fits(16_484)]).toEqual([100, 16_384, 4, false])
  window.settle(103)
  window.settle(16_483)
  expect([window.watermark, window.open]).toEqual([100, 2])
  window.settle(100)
  expect([window.watermark, window.fits(16_484)]).toEqual([9_000, true])
  window.settle(9_000)
  expect([window.watermark, window.open, window.span]).toEqual([16_484, 0, 0])
})

test('the ring of event ids answers as a plain list of the last ids would', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: 60 }), { maxLength: 600 }),
      fc.integer({ min: 1, max: 40 }),
      (ids, max) => {
        const ring = new EventIdRing(max)
        const last: string[] = []
        for (const id of ids.map((n) => `event-${n}`)) {
          const fresh = !last.includes(id)
          expect(ring.add(Buffer.from(id))).toBe(fresh)
          if (fresh) last.push(id)
          if (last.length > max) last.shift()
        }
      },
    ),
  )
})

test('the ring holds 65,536 ids and no more, however many pass', () => {
  const ring = new EventIdRing()
  const total = ringIdsMax * 3
  for (let n = 0; n < total; n++)
    if (!ring.add(Buffer.from(`id-${n}`))) throw new Error(`${n} was taken for a repeat`)
  for (let n = total - ringIdsMax; n < total; n++)
    if (ring.add(Buffer.from(`id-${n}`))) throw new Error(`${n} was forgotten`)
  expect(ring.add(Buffer.from(`id-${total - ringIdsMax - 1}`))).toBe(true)
})
