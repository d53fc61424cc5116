/** The waiting heads of a target and the last settled sequence of its lanes, for one lane and for many. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { PreviousSequences } from '#services/webhooks/deliver/lanes.ts'
import { type Head, Heads } from '#services/webhooks/deliver/target-state.ts'

const headAt = (offset: number): Head => ({
  offset,
  sequence: offset,
  receivedAtMs: 0,
  attempts: 0,
  dueAtMs: 0,
})

test('heads come and go as in a map, whichever is the only one', () => {
  const steps = fc.array(fc.record({ offset: fc.nat(6), leaves: fc.boolean() }), { maxLength: 60 })
  fc.assert(
    fc.property(steps, (all) => {
      const heads = new Heads()
      const model = new Map<number, Head>()
      for (const { offset, leaves } of all) {
        if (leaves) {
          heads.delete(offset)
          model.delete(offset)
        } else if (!heads.get(offset)) {
          const head = headAt(offset)
          heads.add(head)
          model.set(offset, head)
        }
        expect(heads.size).toBe(model.size)
        expect(new Set(heads)).toEqual(new Set(model.values()))
        expect(heads.first?.offset).toBe(model.size === 0 ? undefined : Math.min(...model.keys()))
        for (let one = 0; one <= 6; one++) expect(heads.get(one)).toBe(model.get(one))
      }
    }),
  )
})

test('of too many lanes the one that was used longest ago is forgotten', () => {
  const previous = new PreviousSequences()
  const lanes = 10_000
  for (let n = 0; n < lanes; n++) previous.note(1, `lane-${n}`, n)
  previous.note(1, 'lane-0', lanes)
  // The newest one again, several times: no other one moves.
  for (let n = 1; n <= 3; n++) previous.note(1, 'lane-0', lanes + n)
  previous.note(1, 'new', 7)
  expect(previous.of(1, 'lane-1')).toBeNull()
  expect(previous.of(1, 'lane-2')).toBe(2)
  expect(previous.of(1, 'lane-0')).toBe(lanes + 3)
  previous.forget(1)
  expect(previous.of(1, 'new')).toBeNull()
})

test('previous sequences of all partitions together have one bound in bytes', () => {
  const previous = new PreviousSequences(100_000)
  for (let partition = 0; partition < 1_000; partition++) {
    for (let n = 0; n < 20; n++) previous.note(partition, `lane-${n}-${'x'.repeat(100)}`, n)
    previous.note(0, 'kept in use', partition)
  }
  expect(previous.bytes).toBeLessThanOrEqual(100_000)
  expect(previous.of(1, `lane-0-${'x'.repeat(100)}`)).toBeNull()
  expect(previous.of(999, `lane-19-${'x'.repeat(100)}`)).toBe(19)
  expect(previous.of(0, 'kept in use')).toBe(999)
  for (let partition = 0; partition < 1_000; partition++) previous.forget(partition)
  expect(previous.bytes).toBe(0)
})
