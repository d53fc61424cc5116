/** When a partition commits: at once while that is seldom, few times a second else, and never late. */

import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { CommitResult, GroupConsumer } from '#engines/event-log/port.ts'
import { Committer } from '#runtime/consumer/committer.ts'
import { commitEveryMs, commitsPerSecondMax } from '#runtime/consumer/limits.ts'
import { eventually } from '#test/support/eventually.ts'

function open({
  partitions = 1,
  commit = async () => 'committed' as const,
}: {
  partitions?: number
  commit?: () => Promise<CommitResult>
}) {
  const commits: number[] = []
  const gone = new AbortController()
  onTestFinished(() => gone.abort())
  let settled = 0
  const committer = new Committer({
    partition: 0,
    position: 0,
    consumer: {
      commit: (_partition: number, offset: number) => {
        commits.push(offset)
        return commit()
      },
    } as unknown as GroupConsumer,
    log: pino({ level: 'silent' }),
    partitions: () => partitions,
    gone: gone.signal,
    beforeCommit: undefined,
    snapshot: () => ({ offset: settled, metadata: '' }),
    onCommitted: () => {},
    onLost: () => {},
  })
  const settle = () => {
    settled++
    committer.settled()
  }
  return { committer, commits, settle }
}

test('the first commit goes at once, those of a steady stream share a few, and the last state is among them', async () => {
  const { commits, settle } = open({})
  const begunAt = performance.now()
  for (let n = 0; n < 50; n++) {
    settle()
    await sleep(2)
  }
  await eventually('all are committed', () => commits.at(-1) === 50)
  expect(commits[0]).toBe(1)
  expect(commits.length).toBeLessThanOrEqual((performance.now() - begunAt) / commitEveryMs + 2)
})

test('a partition among many commits less often, so that the group stays below its commits a second', async () => {
  const partitions = 5 * commitsPerSecondMax
  const { commits, settle } = open({ partitions })
  for (let n = 0; n < 20; n++) {
    settle()
    await sleep(5)
  }
  expect(commits).toEqual([1])
})

test('a flush does not wait for its time, and says when it is written', async () => {
  const { committer, commits, settle } = open({ partitions: 3_600 * commitsPerSecondMax })
  settle()
  expect(await committer.flush()).toBe(true)
  settle()
  expect(await committer.flush()).toBe(true)
  settle()
  await sleep(20)
  const flushed = committer.flush()
  expect(await flushed).toBe(true)
  expect(commits).toEqual([1, 2, 3])
})

test('while a commit does not get through, what was settled holds work back; then it goes on', async () => {
  const stuck = Promise.withResolvers<void>()
  const { committer, commits, settle } = open({ commit: () => stuck.promise.then(() => 'committed') })
  expect(committer.behind).toBe(false)
  settle()
  expect(committer.behind).toBe(false)
  await sleep(3 * commitEveryMs)
  expect(committer.behind).toBe(true)
  stuck.resolve()
  await eventually('it is through', () => !committer.behind)
  expect(commits).toEqual([1])
})
