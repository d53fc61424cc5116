/** Reader groups as the console shows them: rates, ages and when the lag will be gone. */

import { expect, test } from 'vitest'
import type { GroupLag } from '#operations/lag.ts'
import { createGroupLooks, type OldestUnread } from '#services/main-api/group-looks.ts'

function group(places: [committed: number, end: number][]): GroupLag {
  const partitions = places.map(([committed, end], partition) => ({
    partition,
    committed,
    start: 0,
    end,
    lag: end - committed,
    expired: 0,
    owner: null,
  }))
  const lag = partitions.reduce((sum, one) => sum + one.lag, 0)
  return {
    group: 'writer',
    group_id: 'writer',
    topic: 't',
    members: 1,
    lag,
    rests: null,
    partitions,
    stuck: [],
  }
}

function openLooks(oldest = new Map<number, OldestUnread>()) {
  let atMs = 1_000_000
  const asked: GroupLag[] = []
  const look = createGroupLooks({
    readOldest: async (one) => {
      asked.push(one)
      return oldest
    },
    samplesOf: () => [],
    now: () => atMs,
  })
  return {
    asked,
    async look(places: [number, number][], afterMs = 0) {
      atMs += afterMs
      const read = await look({ groups: [group(places)], as_of: '' })
      return read.groups[0]!
    },
  }
}

test('rates are those since the first look, and the slowest partition says when all is read', async () => {
  const looks = openLooks()
  const first = await looks.look([
    [0, 100],
    [0, 10],
  ])
  expect([first.in_per_s, first.out_per_s, first.clears_in_s]).toEqual([null, null, null])
  const second = await looks.look(
    [
      [50, 110],
      [5, 10],
    ],
    10_000,
  )
  expect([second.in_per_s, second.out_per_s]).toEqual([1, 5.5])
  expect(second.partitions.map(({ clears_in_s }) => clears_in_s)).toEqual([15, 10])
  expect(second.clears_in_s).toBe(15)
})

test('a partition that does not fall has no end, and so has its group', async () => {
  const looks = openLooks()
  await looks.look([
    [0, 10],
    [0, 10],
  ])
  const grown = await looks.look(
    [
      [0, 20],
      [5, 10],
    ],
    10_000,
  )
  expect(grown.partitions.map(({ clears_in_s }) => clears_in_s)).toEqual([null, 10])
  expect(grown.clears_in_s).toBe(null)
})

test('the oldest record is read once for each position, and says how long it has waited', async () => {
  const looks = openLooks(new Map([[0, { position: 3, atMs: 990_000 }]]))
  expect((await looks.look([[3, 5]])).behind_s).toBe(10)
  expect((await looks.look([[3, 9]], 5_000)).partitions[0]!.behind_s).toBe(15)
  expect(looks.asked.length).toBe(1)
  const done = await looks.look([[9, 9]], 1_000)
  expect([done.behind_s, done.clears_in_s, looks.asked.length]).toEqual([null, null, 1])
})

test('a group that was set back has no rate', async () => {
  const looks = openLooks()
  await looks.look([[50, 100]])
  const back = await looks.look([[0, 100]], 10_000)
  expect([back.in_per_s, back.out_per_s]).toEqual([null, null])
})
