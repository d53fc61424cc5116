/** Bodies of waiting records that were dropped come again, whatever a log delivers around a seek. */

import { expect, test } from 'vitest'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { Lane, type LaneEntry } from '#runtime/consume/lane.ts'
import { LaneMemory } from '#runtime/consume/lane-memory.ts'

const bytes = 100

function recordAt(offset: number): StoredRecord {
  return { offset, key: null, value: Buffer.alloc(0), headers: {}, timestampMs: 0 } as unknown as StoredRecord
}

/** One lane of the offsets 0 to `count` - 1 in room for two memory: the head and what follows it. */
function open(count: number) {
  const seeks: number[] = []
  const arrived: number[] = []
  const vanished: number[] = []
  const memory = new LaneMemory({
    bytesMax: () => 2 * bytes,
    readAgainFrom: (offset) => seeks.push(offset),
    readOn: () => seeks.push(-1),
    arrived: (lane) => arrived.push(lane.head.offset),
    vanished: (lane) => vanished.push(lane.head.offset),
  })
  const entries = Array.from(
    { length: count },
    (_, offset): LaneEntry => ({ offset, timestamp: 0, bytes, record: recordAt(offset), next: null }),
  )
  const lane = new Lane('one', entries[0]!)
  memory.admit(entries[0]!, undefined)
  for (const entry of entries.slice(1)) {
    memory.admit(entry, lane)
    lane.push(entry)
  }
  return {
    seeks,
    arrived,
    vanished,
    memory,
    lane,
    /** Settles heads until one has no body, which is then needed. */
    advance() {
      while (lane.head.record !== null) {
        memory.release(lane.head)
        if (!lane.shift()) return
      }
      memory.need(lane)
    },
    /** What the log holds from the position of the seek on. */
    deliver(from: number, to: number, caughtUp = false) {
      const again = Array.from({ length: to - from + 1 }, (_, n) => recordAt(from + n))
      memory.refill(again, caughtUp)
    },
  }
}

test('a body that was dropped is read again when its turn comes', () => {
  const { seeks, arrived, advance, deliver } = open(6)
  advance()
  expect(seeks).toEqual([2])
  deliver(2, 3)
  expect(arrived).toEqual([2])
})

test('reading that goes on directly behind what came last brings what is needed then, too', () => {
  const world = open(6)
  world.advance()
  world.deliver(2, 3)
  world.advance()
  expect(world.seeks.at(-1)).toBe(4)
  world.deliver(4, 4)
  world.advance()
  // It was not among what came: nothing else would, unless it is asked for.
  expect(world.seeks.at(-1)).toBe(5)
  world.deliver(5, 5, true)
  expect(world.arrived).toEqual([2, 4, 5])
})

test('a head whose record was compacted away is reported as vanished, whatever comes in its place', () => {
  const world = open(6)
  world.advance()
  world.deliver(4, 5)
  expect(world.vanished).toEqual([2])
  expect(world.arrived).toEqual([])
})
