/** When the partitions of a group commit: at once while that is seldom, together when one is urgent, and never late. */

import { pino } from 'pino'
import { expect, test } from 'vitest'
import type { GroupConsumer } from '#engines/event-log/port.ts'
import { CommitPace, Committer } from '#runtime/consumer/committer.ts'
import { commitsPerSecondMax } from '#runtime/consumer/limits.ts'
import { eventually } from '#test/support/eventually.ts'

const spacingMs = 1_000 / commitsPerSecondMax

function openGroup(partitions: number, restMs = 0) {
  const pace = new CommitPace()
  const commits: number[] = []
  const uncommitted = new Set<number>(Array.from({ length: partitions }, (_, n) => n))
  const gone = new AbortController()
  const consumer = {
    commit: async (partition: number) => {
      commits.push(partition)
      return 'committed'
    },
  } as unknown as GroupConsumer
  const committers = Array.from(
    { length: partitions },
    (_, partition) =>
      new Committer({
        partition,
        position: 0,
        consumer,
        log: pino({ level: 'silent' }),
        pace,
        restMs,
        gone: gone.signal,
        beforeCommit: undefined,
        snapshot: () => ({ offset: 0, metadata: '' }),
        hasUncommitted: () => uncommitted.has(partition),
        onCommitted: () => {},
        onLost: () => {},
      }),
  )
  return { pace, commits, committers, uncommitted, close: () => gone.abort() }
}

test('an urgent commit takes along those that wait for their time, as far as they would carry something', async () => {
  const { commits, committers, uncommitted, close } = openGroup(4, 3_600_000)
  for (const committer of committers) await committer.flush()
  commits.length = 0
  for (const committer of committers) committer.commitSoon()
  uncommitted.delete(3)
  committers[0]!.commitNow()
  await eventually('three commits', () => commits.length === 3)
  expect(commits.toSorted()).toEqual([0, 1, 2])
  close()
})

test('commits that did not wait for their time leave it to others: after a burst nothing waits behind it', async () => {
  const { pace, committers, close } = openGroup(2)
  for (let n = 0; n < 500; n++) {
    committers[0]!.commitSoon()
    await committers[0]!.flush()
  }
  // As many as that would have taken the time of two seconds.
  expect(pace.reserve(0)).toBeLessThan(60 * spacingMs)
  close()
})

test('a partition that has just committed waits for its rest, and another one does not', async () => {
  const { commits, committers, close } = openGroup(2, 3_600_000)
  committers[0]!.commitSoon()
  await eventually('a commit', () => commits.length === 1)
  committers[0]!.commitSoon()
  committers[1]!.commitSoon()
  await eventually('another commit', () => commits.length === 2)
  expect(await committers[0]!.flush()).toBe(true)
  expect(commits).toEqual([0, 1, 0])
  close()
})
