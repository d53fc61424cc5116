/** Operation ids: what they hold, that none can be forged, and the state that is read from them. */

import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import {
  createOperationIds,
  createOperations,
  lastPositions,
  newOperationNumber,
} from '#services/vectors/read/operations/operations.ts'
import { createApplied } from '#services/vectors/read/operations/progress.ts'

const ids = createOperationIds(randomBytes(32))
const operation = { number: newOperationNumber(), epoch: 3, last: [{ partition: 11, offset: 2 ** 40 }] }

test('an operation id gives back what it was made from, in URL-safe characters', () => {
  const positionsOf = fc.uniqueArray(fc.record({ partition: fc.nat(5_000), offset: fc.maxSafeNat() }), {
    selector: (one) => one.partition,
    maxLength: 20,
  })
  fc.assert(
    fc.property(fc.nat(), positionsOf, (epoch, last) => {
      const made = { number: newOperationNumber(), epoch, last }
      const id = ids.encode(made)
      expect(id).toMatch(/^[A-Za-z0-9_-]+$/)
      expect(ids.decode(id)).toEqual(made)
    }),
  )
})

test('a forged, cut, lengthened or foreign id is refused', () => {
  const id = ids.encode(operation)
  const foreign = createOperationIds(randomBytes(32)).encode(operation)
  const flipped = Array.from(
    id,
    (character, n) => id.slice(0, n) + (character === 'A' ? 'B' : 'A') + id.slice(n + 1),
  )
  for (const bad of [
    '',
    'x',
    'é',
    id.slice(0, -1),
    `${id}A`,
    `${id}=`,
    foreign,
    'A'.repeat(100_000),
    ...flipped,
  ]) {
    expect(() => ids.decode(bad)).toThrowError(expect.objectContaining({ code: 'invalid_operation_id' }))
  }
})

test('of each partition the last position counts', () => {
  expect(
    lastPositions([
      { partition: 1, offset: 5 },
      { partition: 2, offset: 9 },
      { partition: 1, offset: 7 },
      { partition: 1, offset: 6 },
    ]),
  ).toEqual([
    { partition: 1, offset: 7 },
    { partition: 2, offset: 9 },
  ])
})

const progressOf = (generation: number, partition: number, through: number, failures = 0) => ({
  generation,
  partition,
  applied_through: through,
  failures,
})

test('waiting ends when every partition is applied, or when the time is over', async () => {
  const applied = createApplied()
  applied.goLive(1)
  const positions = [
    { partition: 0, offset: 5 },
    { partition: 1, offset: 7 },
  ]
  expect(await applied.reached(positions, 10)).toBe(false)
  const waiting = applied.reached(positions, 5_000)
  applied.take(progressOf(1, 0, 9))
  applied.take(progressOf(1, 1, 6))
  expect(applied.waiting()).toBe(1)
  applied.take(progressOf(1, 1, 7))
  expect(await waiting).toBe(true)
  expect(await applied.reached(positions, 0)).toBe(true)
})

test('a progress record costs the same whether one request waits or ten thousand', () => {
  const looksOfOneRecord = (waiters: number) => {
    const applied = createApplied()
    applied.goLive(1)
    for (let n = 0; n < waiters; n++) void applied.reached([{ partition: 0, offset: 1_000_000 + n }], 1_000)
    const looks = [
      vi.spyOn(Map.prototype, 'get'),
      vi.spyOn(Map.prototype, 'has'),
      vi.spyOn(Map.prototype, 'delete'),
    ]
    applied.take(progressOf(1, 0, 5))
    const counted = looks.reduce((sum, spy) => sum + spy.mock.calls.length, 0)
    vi.restoreAllMocks()
    applied.stopWaiting()
    return counted
  }
  expect(looksOfOneRecord(10_000)).toBe(looksOfOneRecord(1))
})

test('repeated or late progress never goes back', () => {
  const applied = createApplied()
  applied.goLive(1)
  applied.take(progressOf(1, 0, 9, 2))
  applied.take(progressOf(1, 0, 4, 1))
  expect([applied.appliedThrough(0), applied.failures(0)]).toEqual([9, 2])
})

test('only the live generation counts, and its promotion ends the waiting', async () => {
  const applied = createApplied()
  applied.take(progressOf(1, 0, 9))
  expect(applied.appliedThrough(0)).toBe(-1)
  applied.goLive(1)
  applied.take(progressOf(2, 0, 30))
  expect(applied.appliedThrough(0)).toBe(9)
  const waiting = applied.reached([{ partition: 0, offset: 20 }], 5_000)
  applied.goLive(2)
  expect(await waiting).toBe(true)
})

function operationsOver(failures: number, rows: { error: string }[], through = 100, mirrored = through) {
  const progressTo = (applied: number) => ({
    appliedThrough: () => applied,
    failures: () => failures,
    reached: async (positions: readonly { offset: number }[]) =>
      positions.every(({ offset }) => offset <= applied),
  })
  const queries: unknown[] = []
  const operations = createOperations({
    relational: {
      query: async (_text: string, params: unknown) => {
        queries.push(params)
        return { rows, rowCount: rows.length }
      },
    } as never,
    publisher: { locationOf: () => ({ physicalName: 'vectors.commands', epoch: 1, partitions: 12 }) },
    progress: { ...progressTo(through), mirrored: progressTo(mirrored) },
    ids,
    waitMs: 10,
  })
  return { operations, queries }
}

test('without failed records the database is not asked', async () => {
  const { operations, queries } = operationsOver(0, [])
  const id = operations.idOf(operations.of(newOperationNumber(), [{ partition: 0, offset: 5 }]))
  expect(await operations.state(operations.parse(id))).toEqual({ status: 'applied' })
  expect(queries).toEqual([])
})

test('an operation fails when it has a failure row', async () => {
  const { operations } = operationsOver(1, [{ error: 'the engine refused it' }])
  const id = operations.idOf(operations.of(newOperationNumber(), [{ partition: 0, offset: 5 }]))
  expect(await operations.state(operations.parse(id))).toEqual({
    status: 'failed',
    error: 'the engine refused it',
  })
  await expect(operations.after(id)).rejects.toMatchObject({ code: 'operation_failed', statusCode: 409 })
})

test('an operation not applied in time is 503 not_yet_applied with a wait', async () => {
  const { operations } = operationsOver(0, [], 4)
  const id = operations.idOf(operations.of(newOperationNumber(), [{ partition: 0, offset: 5 }]))
  expect(await operations.state(operations.parse(id))).toEqual({ status: 'accepted' })
  await expect(operations.after(id)).rejects.toMatchObject({ code: 'not_yet_applied', retryAfter: 1 })
})

test('reads of the mirror wait for the mirror, all others for the vector engine', async () => {
  const behind = operationsOver(0, [], 100, 4)
  const id = behind.operations.idOf(behind.operations.of(newOperationNumber(), [{ partition: 0, offset: 5 }]))
  await expect(behind.operations.after(id)).resolves.toBeUndefined()
  await expect(behind.operations.after(id, 'relational')).rejects.toMatchObject({ code: 'not_yet_applied' })
  const ahead = operationsOver(0, [], 4, 100)
  await expect(ahead.operations.after(id, 'relational')).resolves.toBeUndefined()
  await expect(ahead.operations.after(id)).rejects.toMatchObject({ code: 'not_yet_applied' })
})

test('the failures of each index are its own', async () => {
  const { operations, queries } = operationsOver(1, [])
  const id = operations.idOf(operations.of(operation.number, [{ partition: 0, offset: 5 }]))
  await operations.after(id)
  await operations.after(id, 'relational')
  expect(queries).toEqual([
    [operation.number, 'vectors'],
    [operation.number, 'relational'],
  ])
})

test('an id of another epoch is 404', () => {
  const { operations } = operationsOver(0, [])
  expect(() => operations.parse(ids.encode({ ...operation, epoch: 2 }))).toThrowError(
    expect.objectContaining({ code: 'operation_not_found', statusCode: 404 }),
  )
})
