/** Records that wait for the runner of a partition, and when fetching pauses. */

import { afterEach, expect, test, vi } from 'vitest'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { Gathering, RecordBuffer } from '#runtime/consume/record-buffer.ts'

function open(rests?: () => boolean, recordsMax = 2_048) {
  const calls: string[] = []
  const buffer = new RecordBuffer({
    bytesMax: () => 1_000_000,
    recordsMax,
    ...(rests ? { rests } : {}),
    pause: () => calls.push('pause'),
    resume: () => calls.push('resume'),
  })
  return { buffer, calls }
}

function record(offset: number): StoredRecord {
  return { partition: 0, offset, timestamp: 0, key: null, value: Buffer.from('x'), headers: {} }
}

test('while the group gathers nothing is fetched', () => {
  let rests = false
  const { buffer, calls } = open(() => rests)
  buffer.push([record(0)])
  expect(calls).toEqual([])
  rests = true
  buffer.updateFetching()
  expect(calls).toEqual(['pause'])
  // A fetch in flight still arrives; no further one begins.
  buffer.push([record(1)])
  expect(buffer.shift()?.offset).toBe(0)
  rests = false
  buffer.updateFetching()
  expect(calls).toEqual(['pause', 'resume'])
})

test('a stop outlasts the rest', () => {
  let rests = true
  const { buffer, calls } = open(() => rests)
  buffer.push([record(0)])
  buffer.setStopped(true)
  rests = false
  buffer.updateFetching()
  expect(calls).toEqual(['pause'])
  buffer.setStopped(false)
  expect(calls).toEqual(['pause', 'resume'])
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

afterEach(() => {
  vi.useRealTimers()
})

test('at the end of a rest every partition goes on, also where one of them has records that begin the next rest', () => {
  vi.useFakeTimers()
  const resumed: number[] = []
  const gathering = new Gathering(20, () => {
    for (const buffer of buffers) buffer.updateFetching()
  })
  const buffers = [0, 1, 2].map(
    (partition) =>
      new RecordBuffer({
        bytesMax: () => 1_000_000,
        recordsMax: 2_000,
        rests: () => gathering.isOn,
        pause() {},
        resume() {
          resumed.push(partition)
          // It holds one that it read before, as the embedded log does.
          gathering.begin([{ ...record(1), timestamp: Date.now() }])
        },
      }),
  )
  gathering.begin([{ ...record(0), timestamp: Date.now() }])
  vi.advanceTimersByTime(50)
  expect(resumed.slice(0, 3)).toEqual([0, 1, 2])
  expect(gathering.isOn).toBe(true)
})
