/** What becomes of the records of a batch after a call, and that halving finds exactly what an engine refuses. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type BatchOutcome, done, park, retry, split, unavailable } from '#lib/outcome.ts'
import { type BatchRecord, decideBatch } from '#runtime/consume/batch-outcomes.ts'
import type { Message } from '#runtime/publish/messages.ts'
import { handleBatch } from '#test/support/consumer-handle-batch.ts'

const limits = { retriesMax: 2, backoff: { baseMs: 1, maxMs: 1, random: () => 0 } }
const recordsOf = (keys: string): BatchRecord[] => [...keys].map((key) => ({ key, attempts: 0 }))

/** Indices of the records of each part of the decision. */
function decide(keys: string, outcomes: BatchOutcome[]) {
  const records = recordsOf(keys)
  const decision = decideBatch(records, outcomes, limits)
  const at = (record: BatchRecord) => records.indexOf(record)
  return {
    ...decision,
    settled: decision.settled.map(at),
    parked: decision.parked.map(({ record, reason }) => [at(record), reason]),
    again: decision.again.map((group) => group.records.map(at)),
    waits: decision.again.map((group) => group.waitMs),
  }
}

describe('the outcomes of a batch', () => {
  test('settle and park each record by itself', () => {
    const { settled, parked, again } = decide('abc', [done, park('no'), done])
    expect([settled, parked, again]).toEqual([[0, 2], [[1, 'no']], []])
  })

  test('halve the part that was refused together, and leave the rest as it is', () => {
    const refused = split('not these')
    const { settled, parked, again, failed } = decide('abcde', [refused, done, refused, park('no'), refused])
    expect([settled, parked, again]).toEqual([[1], [[3, 'no']], [[0], [2, 4]]])
    expect(failed).toBe(0)
  })

  test('park a record that was refused with no other', () => {
    expect(decide('a', [split('bad')]).parked).toEqual([[0, 'bad']])
    expect(decide('abc', [done, split('bad'), done])).toMatchObject({ parked: [[1, 'bad']], again: [] })
  })

  test('try the later records of a key again after an earlier one of it', () => {
    const { settled, again, waits, failed } = decide('abab', [retry('later', 70), done, done, done])
    expect([settled, again, waits, failed]).toEqual([[1, 3], [[0, 2]], [70], 1])
  })

  test('give a record up when its retries are used up, and count no attempt for an engine that is away', () => {
    const records = recordsOf('ab')
    const outcomes = [retry('ill'), unavailable('engine', 'away')]
    for (let n = 0; n < 2; n++) expect(decideBatch(records, outcomes, limits).parked).toEqual([])
    const last = decideBatch(records, outcomes, limits)
    expect(last.parked).toEqual([{ record: records[0], reason: 'ill' }])
    expect(last.unavailable).toMatchObject({ engine: 'engine', reason: 'away' })
    expect(records.map(({ attempts }) => attempts)).toEqual([3, 0])
  })
})

test('halving parks exactly the bad records, applies the others in order, and ends', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), bad: fc.boolean() }), { maxLength: 40 }),
      async (drawn) => {
        const messages = drawn.map(({ key, bad }, offset): Message<boolean> => {
          return { key, value: bad, partition: 0, offset, headers: {}, timestamp: 0 }
        })
        const applied: number[] = []
        const ends = await handleBatch(async (some: Message<boolean>[]) => {
          if (some.some(({ value }) => value)) return some.map(() => split('refused'))
          applied.push(...some.map(({ offset }) => offset))
          return some.map(() => done)
        }, messages)
        expect(ends.map(({ kind }) => kind)).toEqual(drawn.map(({ bad }) => (bad ? 'park' : 'done')))
        expect(applied).toEqual(messages.filter(({ value }) => !value).map(({ offset }) => offset))
      },
    ),
  )
})
