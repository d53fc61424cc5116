/** What a commit's metadata holds comes back as it was, in at most 4,096 bytes, whatever a partition went through. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  exactAttemptsMax,
  metadataBytesMax,
  retryingLanesMax,
  windowOffsets,
} from '#runtime/consume/limits.ts'
import {
  type Attempts,
  type Bookkeeping,
  bitmapBytesMax,
  decodeMetadata,
  encodeMetadata,
  type Progress,
  setBit,
} from '#runtime/consume/metadata.ts'
import { Window } from '#runtime/consume/window.ts'
import { propertyRuns } from '../../../support/property-runs.ts'

const book: Bookkeeping = {
  progressedAtMs: 1_790_000_000_123,
  released: false,
  kills: 2,
  isolatedUntil: 0,
  isolated: null,
  owner: 0xfedcba98,
}

const anyProgress = fc
  .record({
    offset: fc.integer({ min: 0, max: 2 ** 52 }),
    settled: fc.uniqueArray(fc.integer({ min: 1, max: windowOffsets - 1 }), { maxLength: 400 }),
    attempts: fc.uniqueArray(
      fc.tuple(
        fc.integer({ min: 0, max: windowOffsets - 1 }),
        fc.integer({ min: 1, max: 300_000 }),
        fc.integer({ min: 0, max: 300 }),
      ),
      {
        maxLength: retryingLanesMax,
        selector: ([distance]) => distance,
      },
    ),
  })
  .map(({ offset, settled, attempts }) => ({
    offset,
    settled: settled.map((distance) => offset + distance),
    attempts: attempts.map(([distance, count, retriesUsed]) => ({
      offset: offset + distance,
      count,
      retriesUsed,
    })),
  }))

function progressOf(offset: number, settled: number[], attempts: Attempts[]): Progress {
  const bitmap = new Uint8Array(bitmapBytesMax)
  for (const one of settled) setBit(bitmap, offset, one)
  return { offset, settled: bitmap, attempts }
}

describe('commit metadata', () => {
  test('comes back as it was written', () => {
    fc.assert(
      fc.property(anyProgress, ({ offset, settled, attempts }) => {
        const text = encodeMetadata(progressOf(offset, settled, attempts), { ...book, isolated: offset })
        const saved = decodeMetadata(text, offset)!
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(metadataBytesMax)
        expect([...saved.settled].sort()).toEqual([...settled].sort())
        const exact = attempts.length <= exactAttemptsMax
        const countMax = exact ? 2 ** 18 - 1 : 1_023
        for (const { offset: at, count, retriesUsed } of attempts) {
          const kept = Math.min(count, countMax)
          const expected = { count: kept, retriesUsed: exact ? Math.min(retriesUsed, 255) : kept }
          expect(saved.attempts.get(at)).toEqual(expected)
        }
        expect(saved.attempts.size).toBe(attempts.length)
        expect(saved).toMatchObject({ ...book, isolated: offset })
      }),
    )
  })

  test('fits when every offset of the window is settled and more lanes than allowed retry', () => {
    for (let shift = 0; shift < 8; shift++) {
      const offset = 2 ** 52 + shift
      const all = Array.from({ length: windowOffsets }, (_, distance) => offset + distance)
      const attempts = all.map((one) => ({ offset: one, count: 100_000, retriesUsed: 3 }))
      const text = encodeMetadata(progressOf(offset, all, attempts), {
        progressedAtMs: Number.MAX_SAFE_INTEGER,
        released: true,
        kills: 1_000,
        isolatedUntil: Number.MAX_SAFE_INTEGER,
        isolated: Number.MAX_SAFE_INTEGER,
        owner: 2 ** 32 - 1,
      })
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(metadataBytesMax)
      const saved = decodeMetadata(text, offset)!
      expect(saved.settled.size).toBe(windowOffsets)
      expect(saved.attempts.size).toBe(retryingLanesMax)
      expect(saved.attempts.get(offset)?.count).toBe(1_023)
    }
  })

  test('of another format is not taken for none', () => {
    expect(decodeMetadata('{"someone": "else"}', 5)).toBeNull()
    expect(decodeMetadata('f2.AAAA', 5)).toBeNull()
    expect(decodeMetadata('f1.AAAA', 5)).toBeNull()
    expect(decodeMetadata('', 5)).toMatchObject({ released: true, kills: 0 })
  })
})

describe('the window', () => {
  const steps = fc.array(
    fc.oneof(
      fc.record({ kind: fc.constant('admit' as const), gap: fc.integer({ min: 1, max: 40 }) }),
      fc.record({ kind: fc.constant('finish' as const), pick: fc.nat() }),
    ),
    { maxLength: 800 },
  )

  test('keeps the watermark below every open offset and its bitmap true, over holes and for ever', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 40 }), steps, (position, all) => {
        const window = new Window(position)
        const open: number[] = []
        const settled: number[] = []
        let next = position
        for (const step of all) {
          if (step.kind === 'admit') {
            const offset = next + step.gap - 1
            if (!window.fits(offset)) continue
            window.admit(offset)
            open.push(offset)
            next = offset + 1
          } else if (open.length > 0) {
            const [offset] = open.splice(step.pick % open.length, 1)
            window.settle(offset!)
            settled.push(offset!)
          }
        }
        const watermark = open[0] ?? next
        expect(window.watermark).toBe(watermark)
        const text = encodeMetadata({ offset: watermark, settled: window.bitmap(), attempts: [] }, book)
        const beyond = settled.filter((offset) => offset > watermark).sort((a, b) => a - b)
        expect([...decodeMetadata(text, watermark)!.settled].sort((a, b) => a - b)).toEqual(beyond)
      }),
      { numRuns: propertyRuns(60) },
    )
  })

  test('holds nothing further than its length beyond the first open offset', () => {
    const window = new Window(1_000)
    for (let offset = 1_000; window.fits(offset); offset++) {
      window.admit(offset)
      if (offset > 1_000) window.settle(offset)
    }
    expect(window.span).toBe(windowOffsets)
    expect(window.watermark).toBe(1_000)
    window.settle(1_000)
    expect(window.watermark).toBe(1_000 + windowOffsets)
    expect(window.bitmap().every((byte) => byte === 0)).toBe(true)
  })
})
