/** Progress reported as applied stays so when another member takes a partition over. */

import { pino } from 'pino'
import { expect, it } from 'vitest'
import { done } from '#lib/outcome.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { resetProgress } from '#services/vectors/write/progress.ts'
import { vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { jsonCodec } from '#test/support/consumer-wiring.ts'
import { eventually } from '#test/support/eventually.ts'
import { type IndexLog, openIndexLog } from '#test/support/index-writer.ts'

/** Records handled by a writer, by their offsets; it hangs at `hangsAt`. */
function recorder(hangsAt = Number.POSITIVE_INFINITY) {
  const offsets: number[] = []
  const openGeneration = () => ({
    async handle(messages: Message<VectorUpsert>[]) {
      if (messages[0]!.offset >= hangsAt) return new Promise<never>(() => {})
      offsets.push(...messages.map(({ offset }) => offset))
      return messages.map(() => done)
    },
  })
  return { offsets, openGeneration }
}

const reportedThrough = ({ eventLog }: IndexLog) =>
  Math.max(
    -1,
    ...eventLog.records('vectors.progress').map(({ value }) => JSON.parse(String(value)).applied_through),
  )

/** A writer that is killed between its progress and its commit: five records are reported, none is committed. */
async function killedAfterProgress(log: IndexLog): Promise<void> {
  const first = recorder()
  const member = await log.startWriter(first)
  await member.gain([0])
  await log.put([{ id: 'committed', payload: {} }])
  await eventually('it is committed', () => log.eventLog.commits.at(-1)?.offset === 1)
  member.commit = () => new Promise(() => {})
  await log.put(['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, payload: {} })))
  await eventually('all of it is reported', () => reportedThrough(log) === 5)
  member.lose([0])
}

it('begins behind reported progress, although it was never committed', async () => {
  const log = await openIndexLog()
  await killedAfterProgress(log)
  const second = recorder()
  const member = await log.startWriter(second)
  await member.gain([0])
  const [next] = await log.put([{ id: 'f', payload: {} }])
  await eventually('the new record is handled', () => second.offsets.includes(next!))
  expect(second.offsets).toEqual([next])
})

it('commits reported progress without waiting for a record: lag and rebuilds go by commits', async () => {
  const log = await openIndexLog()
  await killedAfterProgress(log)
  const second = recorder()
  await (await log.startWriter(second)).gain([0])
  await eventually('it is committed', () => log.eventLog.commits.at(-1)?.offset === 6)
  expect(second.offsets).toEqual([])
})

it('begins where an operator set the group, and goes on from there after another takeover', async () => {
  const log = await openIndexLog()
  await killedAfterProgress(log)
  const { eventLog, publisher } = log
  const positions = [{ partition: 0, offset: 2 }]
  await eventLog.setPositions('vector-writer', 'vectors.commands', positions)
  const quiet = pino({ level: 'silent' })
  await resetProgress(
    { index: vectorsIndex, eventLog, codec: jsonCodec, publisher, log: quiet },
    1,
    positions,
  )
  const second = recorder(4)
  const member = await log.startWriter({ ...second, batchRecordsMax: 1 })
  await member.gain([0])
  await eventually('a part is committed', () => eventLog.commits.at(-1)?.offset === 4)
  member.lose([0])
  const third = recorder()
  await (await log.startWriter(third)).gain([0])
  await eventually('the rest is handled', () => third.offsets.includes(5))
  expect([second.offsets, third.offsets]).toEqual([
    [2, 3],
    [4, 5],
  ])
})
