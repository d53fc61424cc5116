/** News of runs: in order, bounded, and no run waits for a log that is away. */

import { expect, test } from 'vitest'
import type { OutgoingMessage } from '#runtime/publish/messages.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { createRunNews } from '#services/runs/dispatch/news.ts'
import type { ClaimedRun } from '#services/runs/state/types.ts'
import { eventually } from '../../../../support/eventually.ts'
import { silentLog } from '../../../../support/relational.ts'

const run = { runId: 'run_1', rootRunId: 'run_1', goalId: null, attempt: 1, slug: 'whale' } as ClaimedRun
const at = (seq: number) => ({ seq, goalSeq: null, canceled: false })

function publisherOf(publish: (messages: OutgoingMessage<string, RunEventRecord>[]) => Promise<unknown>) {
  return { publish: (_topic: unknown, messages: never[]) => publish(messages) } as never
}

test('messages during a send go together, in order', async () => {
  const batches: (number | null)[][] = []
  const news = createRunNews(
    publisherOf(async (messages) => {
      await new Promise((resolve) => setTimeout(resolve, 5))
      batches.push(messages.map(({ value }) => value!.seq))
    }),
    silentLog,
  )
  for (let seq = 1; seq <= 900; seq++) news.stored(run, '{}', at(seq))
  news.partial(run, '{}')
  await news.close()
  expect(batches.flat()).toEqual([...Array.from({ length: 900 }, (_, n) => n + 1), null])
  expect(batches.length).toBeLessThan(10)
})

test('a message already delivered here goes with the next batch, or alone a little later', async () => {
  const batches: string[][] = []
  const news = createRunNews(
    publisherOf(async (messages) => void batches.push(messages.map(({ value }) => value!.run_id))),
    silentLog,
    new Set([({ run_id }) => run_id === run.runId]),
  )
  news.started(run)
  news.stored(run, '{}', at(1))
  news.stored({ ...run, runId: 'run_2', rootRunId: 'run_2' }, '{}', at(1))
  await eventually('it is published', async () => batches.length > 0)
  expect(batches).toEqual([['run_1', 'run_1', 'run_2']])
  news.stored(run, '{}', at(2))
  await eventually('it is published', async () => batches.length > 1)
  expect(batches[1]).toEqual(['run_1'])
  await news.close()
})

test('a log that is away holds up nobody, and its news are dropped', async () => {
  let away = true
  const seen: (number | null)[] = []
  const news = createRunNews(
    publisherOf(async (messages) => {
      await new Promise((resolve) => setTimeout(resolve, 1))
      if (away) throw new Error('away')
      seen.push(...messages.map(({ value }) => value!.seq))
    }),
    silentLog,
  )
  for (let seq = 1; seq <= 5_000; seq++) news.stored(run, '{}', at(seq))
  away = false
  await eventually('it publishes again', async () => {
    news.stored(run, '{}', at(9_000))
    return seen.includes(9_000)
  })
  await news.close()
})

test('pieces of texts are dropped before whole events are', async () => {
  let go = () => {}
  const open = new Promise<void>((resolve) => {
    go = resolve
  })
  const seen: (number | null)[] = []
  const news = createRunNews(
    publisherOf(async (messages) => {
      await open
      seen.push(...messages.map(({ value }) => value!.seq))
    }),
    silentLog,
  )
  for (let n = 0; n < 3_000; n++) news.partial(run, '{}')
  for (let seq = 1; seq <= 500; seq++) news.stored(run, '{}', at(seq))
  go()
  await news.close()
  expect(seen.filter((seq) => seq !== null)).toHaveLength(500)
  expect(seen.filter((seq) => seq === null).length).toBeLessThan(2_000)
})
