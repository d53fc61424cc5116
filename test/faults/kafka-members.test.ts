/** Members come and go under load: the group never commits records that were not read, late commits are fenced. */

import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { CommitResult } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog } from '#test/support/kafka-log.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { topicSpec } from '#test/support/topic-spec.ts'

const partitions = 6
const perPartition = 1_500
const workMs = 400

const open = async () => openTestLog(await kafkaBrokers(), 'members')

interface Ledger {
  /** Every successful commit in the order of its answer: partition, offset, who. */
  commits: { partition: number; offset: number; member: string }[]
  results: Record<CommitResult, number>
  read: Map<number, Set<number>>
}

/**
 * Reads a partition in batches, works on each for a while, then commits: often too late. Work begun before a
 * partition was lost is dropped when it comes back, where it is read again from its committed position.
 */
async function joinSlow(name: string, topic: string, group: string, ledger: Ledger) {
  const log = await open()
  const busy = new Map<number, Promise<void>>()
  const terms = new Map<number, number>()
  const consumer = await log.consume({
    group,
    topic,
    listener: {
      async assigned(gained) {
        for (const { partition } of gained) terms.set(partition, (terms.get(partition) ?? 0) + 1)
        return new Map(gained.map((one) => [one.partition, one.committed?.offset ?? 0]))
      },
      lost() {},
      records(partition, records) {
        for (const { offset } of records) ledger.read.get(partition)!.add(offset)
        const end = records.at(-1)!.offset + 1
        const term = terms.get(partition)
        busy.set(
          partition,
          (busy.get(partition) ?? Promise.resolve()).then(async () => {
            await sleep(workMs * Math.random())
            if (terms.get(partition) !== term) return
            const result = await consumer.commit(partition, end, name)
            ledger.results[result]++
            if (result === 'committed') ledger.commits.push({ partition, offset: end, member: name })
          }),
        )
      },
      misplaced: (partition, problem) => {
        throw new Error(`misplaced ${partition} ${JSON.stringify(problem)}`)
      },
    },
  })
  return consumer
}

test('members join and leave under load: nothing is skipped, and no late commit moves a position back', async () => {
  const log = await open()
  const [topic, group] = [`members.${randomUUID()}`, `members-${randomUUID()}`]
  await log.createTopic(topicSpec(topic, { partitions }))
  const ledger: Ledger = {
    commits: [],
    results: { committed: 0, again: 0, lost: 0 },
    read: new Map(Array.from({ length: partitions }, (_, partition) => [partition, new Set()])),
  }
  const producing = Promise.all(
    Array.from({ length: partitions }, async (_, partition) => {
      for (let n = 0; n < perPartition; n += 10) {
        const records = Array.from({ length: 10 }, (_, i) => ({
          key: null,
          value: Buffer.from(String(n + i)),
        }))
        await log.append(topic, partition, records, { timeoutMs: 60_000 })
        await sleep(100)
      }
    }),
  )
  const stays = await joinSlow('stays', topic, group, ledger)
  for (const name of ['a', 'b', 'c']) {
    const guest = await joinSlow(name, topic, group, ledger)
    await eventually(`${name} owns its half`, () => guest.assignment().length === partitions / 2, 60_000)
    await sleep(1_500)
    await guest.close()
    await eventually('the other owns all', () => stays.assignment().length === partitions, 60_000)
  }
  await producing
  await eventually(
    'all is committed',
    async () => {
      const { committed } = await log.groupState(group, topic)
      return committed.length === partitions && committed.every((one) => one.offset === perPartition)
    },
    60_000,
  )
  for (const offsets of ledger.read.values()) expect(offsets.size).toBe(perPartition)
  checkNoStepBack(ledger)
  expect(ledger.results.lost).toBeGreaterThan(0)
}, 240_000)

/** A member's positions only rise, and once a partition has gone to another member the former commits nothing of it. */
function checkNoStepBack({ commits }: Ledger): void {
  const last = new Map<number, number>()
  for (const { partition, offset, member } of commits) {
    const before = last.get(partition) ?? 0
    expect(offset, `${member} on partition ${partition}`).toBeGreaterThan(before)
    last.set(partition, offset)
  }
}
