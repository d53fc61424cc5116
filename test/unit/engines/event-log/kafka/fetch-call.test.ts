/** A fetch: which records are delivered, where reading goes on, and which are missing. */

import type { RecordsBatch } from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { takeRecords } from '#engines/event-log/kafka/fetch-call.ts'

const [transactional, control, appendTime] = [16, 32, 8]

function batch(firstOffset: number, offsetDeltas: number[], given: Partial<RecordsBatch> = {}): RecordsBatch {
  return {
    firstOffset: BigInt(firstOffset),
    length: 0,
    partitionLeaderEpoch: 4,
    magic: 2,
    crc: 0,
    attributes: 0,
    lastOffsetDelta: Math.max(...offsetDeltas),
    firstTimestamp: 1_000n,
    maxTimestamp: 9_000n,
    producerId: 7n,
    producerEpoch: 0,
    firstSequence: 0,
    records: offsetDeltas.map((offsetDelta) => ({
      length: 0,
      attributes: 0,
      timestampDelta: BigInt(offsetDelta),
      offsetDelta,
      key: Buffer.from([0, 0, 0, 0]),
      value: null,
      headers: [],
    })),
    ...given,
  }
}

const take = (
  records: RecordsBatch[],
  from: number,
  aborted: { producerId: bigint; firstOffset: bigint }[] = [],
) => {
  const taken = takeRecords(3, { records, abortedTransactions: aborted }, from)
  return { ...taken, records: taken.records.map(({ offset, timestamp }) => [offset, timestamp]) }
}

test('a fetch from the middle of a batch begins there, with the times of the records', () => {
  expect(take([batch(10, [0, 1, 2])], 11)).toEqual({
    records: [
      [11, 1_001],
      [12, 1_002],
    ],
    next: 13,
    epoch: 4,
    gap: null,
  })
})

test('where the broker sets the time, all records of a batch have it', () => {
  expect(take([batch(0, [0, 1], { attributes: appendTime })], 0).records).toEqual([
    [0, 9_000],
    [1, 9_000],
  ])
})

test('reading goes on behind a compacted batch, and a gap between batches is reported', () => {
  expect(take([batch(5, [1], { lastOffsetDelta: 4 }), batch(12, [0])], 5)).toMatchObject({
    next: 13,
    gap: { from: 10, to: 12 },
  })
  expect(take([batch(5, [0])], 5).gap).toBeNull()
  expect(take([batch(5, [0])], 3).gap).toEqual({ from: 3, to: 5 })
})

test('markers and aborted records are left out, and a later transaction of the same producer is not', () => {
  const batches = [
    batch(0, [0, 1], { attributes: transactional }),
    batch(2, [0], { attributes: transactional | control }),
    batch(3, [0], { attributes: transactional }),
    batch(4, [0], { producerId: 8n }),
  ]
  expect(take(batches, 0, [{ producerId: 7n, firstOffset: 0n }])).toMatchObject({
    records: [
      [3, 1_000],
      [4, 1_000],
    ],
    next: 5,
    gap: null,
  })
})

test('nothing fetched moves nothing', () => {
  expect(take([], 8)).toEqual({ records: [], next: 8, epoch: -1, gap: null })
})
