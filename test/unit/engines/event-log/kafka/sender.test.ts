/** Which batches share a request, and what its answer means for each. */

import { describe, expect, test } from 'vitest'
import type { KnownPartition } from '#engines/event-log/kafka/cluster.ts'
import {
  createSender,
  type ProduceAnswer,
  type ProduceBatch,
  type ProducerIdentity,
  type Send,
  SendFault,
} from '#engines/event-log/kafka/sender.ts'

interface Request {
  node: number
  identity: ProducerIdentity
  partitions: number[]
}

/** Partitions 0 to 3 are led by broker 1, the others by broker 2; 9 has no leader. */
function setUp(answer: (batch: ProduceBatch) => ProduceAnswer = () => ({ offset: 5 })) {
  const requests: Request[] = []
  let refreshed = 0
  const leaderOf = (partition: number) => (partition === 9 ? -1 : partition < 4 ? 1 : 2)
  const leaders = [0, 1, 2, 3, 4, 5, 9].map(
    (partition) => ({ partition, leader: leaderOf(partition) }) as KnownPartition,
  )
  const topics = {
    get: async (topic: string) => (topic === 't' ? leaders : null),
    refresh: () => void refreshed++,
  }
  const produce = async (node: number, identity: ProducerIdentity, batches: ProduceBatch[]) => {
    requests.push({ node, identity, partitions: batches.map(({ partition }) => partition) })
    return batches.map(answer)
  }
  return { sender: createSender(topics, { produce }), requests, refreshed: () => refreshed }
}

const identity = { id: 7n, epoch: 0 }
const batch = (partition: number, more: Partial<Send> = {}): Send => ({
  topic: 't',
  partition,
  records: [{ key: null, value: Buffer.from('x') }],
  sequence: 0,
  identity,
  bytes: 1_000,
  again: false,
  ...more,
})

describe('a request', () => {
  test('takes the small batches of one broker and one identity that are ready at the same time', async () => {
    const { sender, requests } = setUp()
    const raised = { id: 7n, epoch: 1 }
    const sends = [batch(0), batch(1), batch(4), batch(5), batch(2, { identity: raised })]
    expect(await Promise.all(sends.map(sender.send))).toEqual([5, 5, 5, 5, 5])
    expect(requests).toEqual([
      { node: 1, identity, partitions: [0, 1] },
      { node: 2, identity, partitions: [4, 5] },
      { node: 1, identity: raised, partitions: [2] },
    ])
  })

  test('is not shared by retries, nor beyond half a megabyte', async () => {
    const { sender, requests } = setUp()
    const bytes = 200_000
    const sends = [batch(0, { again: true }), ...[1, 2, 3].map((partition) => batch(partition, { bytes }))]
    await Promise.all([...sends, batch(0, { bytes: 600_000 })].map(sender.send))
    expect(requests.map(({ partitions }) => partitions)).toEqual([[0], [0], [1, 2], [3]])
  })

  test('is answered partition by partition', async () => {
    const { sender, refreshed } = setUp(({ partition }) =>
      partition === 1 ? { fault: 'NOT_LEADER_OR_FOLLOWER' } : { offset: partition },
    )
    const results = await Promise.allSettled([0, 1, 2].map((partition) => sender.send(batch(partition))))
    expect(results.map((result) => (result.status === 'fulfilled' ? result.value : result.reason))).toEqual([
      0,
      expect.objectContaining({ type: 'NOT_LEADER_OR_FOLLOWER', refused: false }),
      2,
    ])
    expect(refreshed()).toBe(1)
  })

  test('without an answer leaves every batch in doubt, but not when nothing was sent', async () => {
    for (const [fault, refused] of [
      [new Error('timed out'), false],
      [new SendFault(null, true), true],
    ] as const) {
      const { sender } = setUp(() => {
        throw fault
      })
      await expect(sender.send(batch(0))).rejects.toMatchObject({ type: null, refused })
    }
  })

  test('is not made for a partition without a leader, nor for a topic that the cluster does not have', async () => {
    const { sender, requests, refreshed } = setUp()
    await expect(sender.send(batch(9))).rejects.toMatchObject({ type: 'LEADER_NOT_AVAILABLE', refused: true })
    const unknown = { type: 'UNKNOWN_TOPIC_OR_PARTITION', refused: true }
    await expect(sender.send(batch(7))).rejects.toMatchObject(unknown)
    await expect(sender.send(batch(0, { topic: 'gone' }))).rejects.toMatchObject(unknown)
    expect([requests, refreshed()]).toEqual([[], 3])
  })
})
