/** When a partition commits: at once while that is seldom, few times a second else, and never late. */

import { pino } from 'pino'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { CommitResult, GroupConsumer } from '#engines/event-log/port.ts'
import { Committer, SharedRests } from '#runtime/consume/committer.ts'
import { commitEveryMs as every, knownCommitEveryMs } from '#runtime/consume/limits.ts'

const commitEveryMs = every.hurried

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())
/** Steps the clock; in each millisecond the event loop runs everything due. */
async function pass(ms: number): Promise<void> {
  for (let n = 0; n < ms; n++) {
    await vi.advanceTimersByTimeAsync(1)
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
}

function open({
  commit = async () => 'committed' as const,
  hurries = true,
  beforeCommit,
}: {
  hurries?: boolean
  commit?: () => Promise<CommitResult>
  beforeCommit?: (partition: number, through: number) => Promise<void>
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
    gone: gone.signal,
    hurries,
    rests: new SharedRests(),
    beforeCommit,
    snapshot: () => ({ offset: settled, metadata: '' }),
    onCommitted: () => {},
    onLost: () => {},
  })
  const settle = (awaited = false) => {
    settled++
    committer.settled(awaited)
  }
  return { committer, commits, settle, settled: () => settled }
}

test('the first commit goes at once, those of a steady stream share a few, and the last state is among them', async () => {
  const { commits, settle } = open({})
  for (let n = 0; n < 50; n++) {
    settle()
    await pass(2)
  }
  await pass(commitEveryMs)
  expect(commits.at(-1)).toBe(50)
  expect(commits[0]).toBe(1)
  expect(commits.length).toBeLessThanOrEqual(100 / commitEveryMs + 2)
})

test('partitions that work at the same time commit in the same turn of the event loop', async () => {
  const turns: number[] = []
  const note = async () => {
    if (turns.at(-1) !== performance.now()) turns.push(performance.now())
    return 'committed' as const
  }
  const partitions = Array.from({ length: 20 }, () => open({ commit: note }))
  for (let n = 0; n < 100; n++) {
    partitions[n % 20]!.settle()
    partitions[(n * 7) % 20]!.settle()
    await pass(1)
  }
  await pass(commitEveryMs)
  for (const { commits, settled } of partitions) expect(commits.at(-1)).toBe(settled())
  const all = partitions.reduce((sum, { commits }) => sum + commits.length, 0)
  // Each by itself would take nearly as many turns as there are commits.
  expect(turns.length).toBeLessThan(0.7 * all)
})

test('a flush does not wait for its time, and says when it is written', async () => {
  const { committer, commits, settle } = open({})
  // The clock is stopped.
  for (let n = 1; n <= 20; n++) {
    settle()
    expect(await committer.flush()).toBe(true)
    expect(commits.at(-1)).toBe(n)
  }
})

test('while a commit fails, settled records hold work back; then it goes on', async () => {
  const stuck = Promise.withResolvers<void>()
  const { committer, commits, settle } = open({ commit: () => stuck.promise.then(() => 'committed') })
  expect(committer.behind).toBe(false)
  settle()
  expect(committer.behind).toBe(false)
  await pass(4 * commitEveryMs)
  expect(committer.behind).toBe(true)
  stuck.resolve()
  await pass(commitEveryMs)
  expect(committer.behind).toBe(false)
  expect(commits).toEqual([1])
})

test('progress that is announced is committed less often; the last state is committed, and a flush is immediate', async () => {
  const known: number[] = []
  const beforeCommit = async (_partition: number, through: number) => void known.push(through + 1)
  const { committer, commits, settle } = open({ beforeCommit })
  for (let n = 1; n <= 20; n++) {
    settle()
    await pass(commitEveryMs + 5)
    expect(known.at(-1)).toBe(n)
  }
  expect(commits.length).toBeLessThanOrEqual((20 * (commitEveryMs + 5)) / knownCommitEveryMs + 2)
  await pass(knownCommitEveryMs)
  expect(commits.at(-1)).toBe(20)
  settle()
  expect(await committer.flush()).toBe(true)
  expect(commits.at(-1)).toBe(21)
})

test('announced progress holds no work back while its commit is pending', async () => {
  const { committer, commits, settle } = open({ beforeCommit: async () => {} })
  settle()
  await pass(knownCommitEveryMs)
  expect(commits.at(-1)).toBe(1)
  settle()
  await pass(knownCommitEveryMs / 2)
  expect(committer.behind).toBe(false)
  await pass(knownCommitEveryMs + commitEveryMs)
  expect(commits.at(-1)).toBe(2)
})

test('where nobody waits, partitions make known and commit at times that they share', async () => {
  const times: number[] = []
  const beforeCommit = async () => void times.push(performance.now())
  const partitions = Array.from({ length: 5 }, () => open({ hurries: false, beforeCommit }))
  await pass(every.otherwise + 10)
  for (let n = 0; n < 40; n++) {
    for (const { settle } of partitions) {
      settle()
      await pass(2)
    }
  }
  await pass(every.otherwise)
  // All five at each time, ten times a second.
  const together = [...Map.groupBy(times, (at) => Math.round(at)).values()]
  expect(together.length).toBeLessThanOrEqual(400 / every.otherwise + 3)
  expect(together.slice(1).map((ones) => ones.length)).toEqual(together.slice(1).map(() => 5))
  await pass(knownCommitEveryMs)
  for (const { commits } of partitions) expect(commits.at(-1)).toBe(40)
})

test('what somebody waits for is made known at once, also while other things wait for their time', async () => {
  const known: number[] = []
  const beforeCommit = async (_partition: number, through: number) => void known.push(through + 1)
  const { settle } = open({ hurries: false, beforeCommit })
  await pass(every.otherwise + 10)
  settle()
  await pass(every.otherwise)
  expect(known).toEqual([1])
  settle()
  await pass(25)
  expect(known).toEqual([1])
  settle(true)
  await pass(2)
  expect(known).toEqual([1, 3])
  // The next one that nobody waits for takes its time again.
  settle()
  await pass(10)
  expect(known).toEqual([1, 3])
  await pass(every.otherwise)
  expect(known).toEqual([1, 3, 4])
})
