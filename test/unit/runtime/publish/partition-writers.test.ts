/** The writer names of a worker: one for each partition, and taken back by whoever still owns it. */

import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import type { FencedPublisher } from '#runtime/publish/messages.ts'
import { createPartitionWriters } from '#runtime/publish/partition-writers.ts'
import { adminAudit } from '#topics/catalog.ts'

/** A log of writer names: the newest holder of each may publish. */
function open() {
  const holders = new Map<string, number>()
  const closed: string[] = []
  const publisher = {
    async fenced(name: string): Promise<FencedPublisher> {
      const holder = (holders.get(name) ?? 0) + 1
      holders.set(name, holder)
      return {
        async publish() {
          if (holders.get(name) !== holder) throw new AppError('fenced', 'Another one has the name.')
          return []
        },
        batch: () => {
          throw new Error('not used')
        },
        close: async () => void closed.push(`${name} ${holder}`),
      }
    },
  }
  return { publisher, closed, writers: createPartitionWriters(publisher, 'worker') }
}

test('each partition has a name of its own, and one that was not gained has none', async () => {
  const { writers, closed } = open()
  await writers.takeOver([{ partition: 0 }, { partition: 3 }])
  await writers.of(0).publish(adminAudit, [])
  await writers.of(3).publish(adminAudit, [])
  expect(() => writers.of(1)).toThrow('partition 1')
  await writers.close()
  expect(closed.toSorted()).toEqual(['worker-0 1', 'worker-3 1'])
})

test('a publish that is fenced off fails, and the next one has the name again', async () => {
  const { writers, publisher, closed } = open()
  await writers.takeOver([{ partition: 0 }])
  await publisher.fenced('worker-0')
  await expect(writers.of(0).publish(adminAudit, [])).rejects.toMatchObject({ code: 'fenced' })
  expect(closed).toEqual(['worker-0 1'])
  await writers.of(0).publish(adminAudit, [])
})
