/** Records that wait for the runner of a partition, and when fetching pauses. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { RecordBuffer } from '#runtime/consume/record-buffer.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

function open(restMs?: number, recordsMax = 2_048) {
  const calls: string[] = []
  const buffer = new RecordBuffer({
    bytesMax: () => 1_000_000,
    recordsMax,
    ...(restMs === undefined ? {} : { restMs }),
    pause: () => calls.push('pause'),
    resume: () => calls.push('resume'),
  })
  return { buffer, calls }
}

function record(offset: number): StoredRecord {
  return { partition: 0, offset, timestamp: 0, key: null, value: Buffer.from('x'), headers: {} }
}

test('for work that nobody waits for, fetching rests after records came', () => {
  const { buffer, calls } = open(500)
  buffer.push([record(0)])
  expect(calls).toEqual(['pause'])
  // A fetch in flight still arrives; no further one begins.
  vi.advanceTimersByTime(300)
  buffer.push([record(1)])
  expect(buffer.shift()?.offset).toBe(0)
  vi.advanceTimersByTime(200)
  expect(calls).toEqual(['pause', 'resume'])
  buffer.push([record(2)])
  expect(calls).toEqual(['pause', 'resume', 'pause'])
})

test('a stop comes before the rest', () => {
  const { buffer, calls } = open(500)
  buffer.push([record(0)])
  buffer.setStopped(true)
  vi.advanceTimersByTime(500)
  expect(calls).toEqual(['pause'])
  buffer.setStopped(false)
  expect(calls).toEqual(['pause', 'resume'])
})

test('of a partition that is gone no timer is left', () => {
  const { buffer, calls } = open(500)
  buffer.push([record(0)])
  buffer.clear()
  vi.advanceTimersByTime(1_000)
  expect(calls).toEqual(['pause'])
  expect(vi.getTimerCount()).toBe(0)
})

test('without a rest, fetching goes on', () => {
  const { buffer, calls } = open()
  buffer.push([record(0)])
  expect(calls).toEqual([])
})

test('what work lets wait stays in the log: nothing is fetched beyond the records ahead', () => {
  const { buffer, calls } = open(undefined, 40)
  for (let offset = 0; offset < 39; offset++) buffer.push([record(offset)])
  expect(calls).toEqual([])
  buffer.push([record(39)])
  expect(calls).toEqual(['pause'])
  while (buffer.count > 10) {
    expect(calls).toEqual(['pause'])
    buffer.shift()
    buffer.updateFetching()
  }
  expect(calls).toEqual(['pause', 'resume'])
})
