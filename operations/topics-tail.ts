/** The newest records of a topic, decoded, and those that follow. */

import { Type } from 'typebox'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { followRecords } from '#runtime/follow/follow-topic.ts'
import { type ShownRecord, showRecord } from '#runtime/follow/show-record.ts'
import { findTopic } from './find-topic.ts'
import { defineOperation, type OperationContext } from './operation.ts'

export const lastMax = 10_000

export const tailTopicOperation = defineOperation({
  name: 'topics tail',
  args: Type.Object({
    topic: Type.String(),
    last: Type.Integer({ minimum: 0, maximum: lastMax }),
    follow: Type.Boolean(),
    key: Type.Optional(Type.String()),
  }),
  async run(
    { platform, output, signal }: OperationContext<ShownRecord>,
    { topic: name, last, follow, key },
  ): Promise<{ topic: string; records: ShownRecord[] }> {
    const topic = findTopic(name)
    const wanted = (record: StoredRecord) => key === undefined || record.key?.toString('utf8') === key
    const first: StoredRecord[] = []
    let live = false
    let showing: Promise<ShownRecord[]> = Promise.resolve([])
    const show = (records: StoredRecord[]) => {
      showing = showing.then(async () => {
        const shown = await Promise.all(records.map((record) => showRecord(platform.codec, topic, record)))
        if (follow) for (const record of shown) await output.item(record)
        return shown
      })
      return showing
    }
    const over = Promise.withResolvers<void>()
    const following = await followRecords({ ...platform, ...platform.engines }, topic, {
      // A key's records may lie anywhere in its partition.
      from: ({ start, end }) => (key === undefined ? Math.max(start, end - last) : start),
      async onRecord(record) {
        if (!wanted(record)) return
        if (live) {
          await show([record])
          return
        }
        first.push(record)
        if (first.length > lastMax * 2) keepNewest(first, last)
      },
      onEnd: over.reject,
    })
    signal.addEventListener('abort', () => over.resolve(), { once: true })
    if (signal.aborted) over.resolve()
    try {
      await Promise.race([following.ready, over.promise])
      live = true
      keepNewest(first, last)
      await show(first)
      if (follow) await over.promise
    } finally {
      await following.close()
    }
    const records = await showing
    return { topic: name, records: follow ? [] : records }
  },
})

/**
 * By time over all partitions; those of one partition keep their order, also where its time steps back (another broker
 * leads it since).
 */
export function keepNewest(records: StoredRecord[], count: number): void {
  const latest = new Map<number, number>()
  const timed = records.map((record) => {
    const atMs = Math.max(record.timestamp, latest.get(record.partition) ?? 0)
    latest.set(record.partition, atMs)
    return { record, atMs }
  })
  timed.sort((a, b) => a.atMs - b.atMs)
  records.splice(
    0,
    records.length,
    ...timed.slice(Math.max(0, timed.length - count)).map(({ record }) => record),
  )
}
