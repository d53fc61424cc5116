/** The newest records of several partitions, by the time of their brokers. */

import { expect, test } from 'vitest'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { keepNewest } from '#operations/topics-tail.ts'

const record = (partition: number, offset: number, timestamp: number): StoredRecord => ({
  partition,
  offset,
  timestamp,
  key: null,
  value: null,
  headers: {},
})
const names = (records: StoredRecord[]) => records.map(({ partition, offset }) => `${partition}/${offset}`)

test('records are shown by time, and those of a partition whose time steps back in their order', () => {
  const records = [
    record(0, 0, 100),
    record(0, 1, 40),
    record(0, 2, 130),
    record(1, 0, 90),
    record(1, 1, 120),
  ]
  keepNewest(records, 5)
  expect(names(records)).toEqual(['1/0', '0/0', '0/1', '1/1', '0/2'])
  keepNewest(records, 2)
  expect(names(records)).toEqual(['1/1', '0/2'])
  keepNewest(records, 0)
  expect(records).toEqual([])
})
