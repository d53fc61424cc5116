/** What vectors.progress says after restarts. */

import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { AppError } from '#lib/errors.ts'
import type { Publisher } from '#runtime/publish/messages.ts'
import type { VectorsProgress } from '#schemas/types.ts'
import {
  createProgress,
  openProgressTail,
  publishProgress,
  resetProgress,
} from '#services/vectors/write/progress.ts'
import { vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { jsonCodec, testPublisher } from '#test/support/consumer-wiring.ts'
import { topicSpec } from '#test/support/index-writer.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'
import { vectorsProgress } from '#topics/catalog.ts'

function keeper(stored: VectorsProgress[]) {
  const publisher = {
    locationOf: () => ({ partitions: 12 }),
    async publish(_topic: unknown, messages: { value: VectorsProgress }[]) {
      stored.push(...messages.map(({ value }) => value))
    },
  } as unknown as Publisher
  return createProgress(
    publisher,
    { index: vectorsIndex, generation: 2, epoch: 1 },
    {
      async catchUp() {},
      latest: ({ partition }) => stored.findLast((record) => record.partition === partition),
    },
  )
}

describe('progress', () => {
  it('is repeated at assignment, from the commit or the last record, whichever is further', async () => {
    const stored: VectorsProgress[] = []
    await keeper(stored).assigned([{ partition: 0, committed: 5 }])
    expect(stored.at(-1)).toMatchObject({
      partition: 0,
      generation: 2,
      epoch: 1,
      applied_through: 4,
      failures: 0,
    })
    const progress = keeper(stored)
    await progress.assigned([{ partition: 0, committed: 5 }])
    await progress.applied(0, 9)
    await keeper(stored).assigned([{ partition: 0, committed: 7 }])
    expect(stored.at(-1)).toMatchObject({ applied_through: 9 })
  })

  it('counts each failed record once, also when it is repeated after a crash', async () => {
    const stored: VectorsProgress[] = []
    const first = keeper(stored)
    await first.assigned([{ partition: 3, committed: 0 }])
    first.failed(3, 2)
    first.failed(3, 2)
    await first.applied(3, 4)
    // The commit never came: the same records arrive again, and one more fails.
    const second = keeper(stored)
    await second.assigned([{ partition: 3, committed: 0 }])
    second.failed(3, 2)
    second.failed(3, 6)
    await second.applied(3, 6)
    expect(stored.at(-1)).toMatchObject({ applied_through: 6, failures: 2 })
  })

  it('never goes back', async () => {
    const stored: VectorsProgress[] = []
    const progress = keeper(stored)
    await progress.assigned([{ partition: 0, committed: 10 }])
    await progress.applied(0, 3)
    expect(stored.at(-1)).toMatchObject({ applied_through: 9 })
  })
})

describe('progress of many partitions', () => {
  it('shares an append while another is on its way; a failed one holds nothing up', async () => {
    const appends: { partitions: number[]; end: PromiseWithResolvers<void> }[] = []
    const publisher = {
      locationOf: () => ({ partitions: 12 }),
      publish(_topic: unknown, messages: { value: VectorsProgress }[]) {
        const end = Promise.withResolvers<void>()
        appends.push({ partitions: messages.map(({ value }) => value.partition), end })
        return end.promise
      },
    } as unknown as Publisher
    const of = { index: vectorsIndex, generation: 2, epoch: 1 }
    const progress = createProgress(publisher, of, { async catchUp() {}, latest: () => undefined })
    await progress.assigned([0, 1, 2, 3].map((partition) => ({ partition, committed: 0 })))
    appends.shift()!.end.resolve()
    const together = [progress.applied(0, 1), progress.applied(1, 1)]
    await expect.poll(() => appends.map((one) => one.partitions)).toEqual([[0, 1]])
    const later = [progress.applied(2, 1), progress.applied(0, 5), progress.applied(2, 3)]
    appends[0]!.end.reject(new Error('no log'))
    for (const one of together) await expect(one).rejects.toThrow('no log')
    await expect
      .poll(() => appends.map((one) => one.partitions))
      .toEqual([
        [0, 1],
        [2, 0],
      ])
    appends[1]!.end.resolve()
    await Promise.all(later)
  })
})

describe('progress in the log', () => {
  const recordOf = (partition: number, appliedThrough: number): VectorsProgress => ({
    index: 'vectors',
    generation: 2,
    partition,
    epoch: 1,
    applied_through: appliedThrough,
    failures: 0,
  })
  const message = (value: VectorsProgress) => ({ key: value, value })

  async function openLog() {
    const eventLog = createMemoryLog()
    await eventLog.createTopic({ ...topicSpec('vectors.progress'), partitions: 12 })
    const publisher = testPublisher(eventLog, 12)
    const log = pino({ level: 'silent' })
    return { index: vectorsIndex, eventLog, codec: jsonCodec, publisher, log }
  }

  it('of all partitions of a generation lies in one partition', async () => {
    const parts = await openLog()
    const records = Array.from({ length: 12 }, (_, partition) => message(recordOf(partition, 5)))
    await publishProgress(parts.publisher, { index: vectorsIndex, generation: 2 }, records)
    const ends = await parts.eventLog.offsets('vectors.progress')
    expect(ends.map(({ end }) => end).filter((end) => end > 0)).toEqual([12])
  })

  it('goes back by a reset, also where an earlier version wrote it into the partition of its key', async () => {
    const parts = await openLog()
    await parts.publisher.publish(
      vectorsProgress,
      [0, 1, 2, 3].map((n) => message(recordOf(n, 9))),
    )
    const positions = [0, 1, 2, 3].map((partition) => ({ partition, offset: 4 }))
    await resetProgress(parts, 2, positions)
    const tail = await openProgressTail(parts)
    await tail.catchUp()
    for (const { partition } of positions) {
      const known = tail.latest({ generation: 2, epoch: 1, partition })
      expect(known?.applied_through ?? 3).toBe(3)
    }
    await tail.close()
  })

  it('that cannot be read is no gap to go on over: it waits for a later record of its key', async () => {
    const parts = await openLog()
    await publishProgress(parts.publisher, { index: vectorsIndex, generation: 2 }, [message(recordOf(0, 5))])
    const ends = await parts.eventLog.offsets('vectors.progress')
    const { partition } = ends.find(({ end }) => end > 0)!
    const damaged = { key: Buffer.from('vectors/2/0'), value: Buffer.from('{"poison":true}') }
    await parts.eventLog.append('vectors.progress', partition, [damaged])
    const tail = await openProgressTail(parts)
    await expect(tail.catchUp()).rejects.toThrow(/of vectors.progress cannot be read/)
    await publishProgress(parts.publisher, { index: vectorsIndex, generation: 2 }, [message(recordOf(0, 9))])
    await tail.catchUp()
    expect(tail.latest({ generation: 2, epoch: 1, partition: 0 })).toMatchObject({ applied_through: 9 })
    await tail.close()
  })

  it('of another index may be unreadable', async () => {
    const parts = await openLog()
    const damaged = { key: Buffer.from('relational/1/0'), value: Buffer.from('{"poison":true}') }
    await parts.eventLog.append('vectors.progress', 0, [damaged])
    const tail = await openProgressTail(parts)
    await tail.catchUp()
    await tail.close()
  })

  it('is read whole by one that starts while the registry is away: failures do not begin again at 0', async () => {
    const parts = await openLog()
    const failed = { ...recordOf(0, 5), failures: 3 }
    await publishProgress(parts.publisher, { index: vectorsIndex, generation: 2 }, [message(failed)])
    let isAway = true
    const codec: typeof jsonCodec = {
      ...jsonCodec,
      async decode(topic, record) {
        if (isAway) throw new AppError('registry_unavailable', 'It does not answer.')
        return jsonCodec.decode(topic, record)
      },
    }
    const tail = await openProgressTail({ ...parts, codec })
    setTimeout(() => {
      isAway = false
    }, 200)
    await tail.catchUp()
    expect(tail.latest({ generation: 2, epoch: 1, partition: 0 })).toMatchObject({ failures: 3 })
    await tail.close()
  })
})
