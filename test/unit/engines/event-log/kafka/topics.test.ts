/** A broker that does not know a topic yet is no proof that the topic is gone. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { AdminCalls } from '#engines/event-log/kafka/admin.ts'
import type { AdminClient, NewTopic } from '#engines/event-log/kafka/admin-client.ts'
import { topicNotFound } from '#engines/event-log/kafka/faults.ts'
import { createTopics } from '#engines/event-log/kafka/topics.ts'
import type { TopicSpec } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

const spec: TopicSpec = {
  name: 'things',
  partitions: 1,
  cleanup: 'delete',
  retentionMs: null,
  tombstoneRetentionMs: 1,
  segmentBytes: 1_048_576,
  segmentMs: 1,
  recordBytesMax: 1_000,
}

/** A cluster whose brokers are asked in turn; a call is repeated every 100 ms, ten seconds long. */
function openCluster(brokers = 3) {
  const state = { exists: false, lateAnswers: 0, asked: 0, created: [] as NewTopic[] }
  const holds = () => {
    state.asked++
    return state.exists && (state.lateAnswers === 0 || state.lateAnswers-- === 0)
  }
  const described = { partition: 0, leader: 1, replicas: brokers, inSync: brokers }
  const unused = async () => expect.unreachable()
  const client: AdminClient = {
    describe: async (topic) => ({
      brokers: Array.from({ length: brokers }, (_, node) => ({ node, address: `broker:${node}` })),
      partitions: topic !== undefined && holds() ? [described] : [],
    }),
    async createTopic(topic) {
      state.exists = true
      state.created.push(topic)
      return true
    },
    async deleteTopic() {
      state.exists = false
    },
    settings: async () => new Map(),
    listTopics: unused,
    addPartitions: unused,
    changeSetting: unused,
    deleteRecords: unused,
    listGroups: unused,
    members: unused,
    deleteGroup: unused,
  }
  const ask: AdminCalls['ask'] = async (work) => {
    for (let tries = 0; ; tries++) {
      try {
        return await work(client)
      } catch (error) {
        if (error instanceof AppError || tries === 100) throw error
        vi.advanceTimersByTime(100)
      }
    }
  }
  async function rangesNow() {
    if (!holds()) throw topicNotFound('things')
    return [{ partition: 0, start: 0, end: 7 }]
  }
  return { state, topics: createTopics({ ask, close() {} }, { rangesNow }) }
}

test('a topic that was just made is asked for again where a broker does not know it yet', async () => {
  const { state, topics } = openCluster()
  await topics.createTopic(spec)
  state.lateAnswers = 4
  expect(await topics.offsets('things')).toEqual([{ partition: 0, start: 0, end: 7 }])
  state.lateAnswers = 3
  expect(await topics.describeTopic('things')).toMatchObject({ name: 'things', partitions: 1 })
})

test('a topic that is gone is said to be, soon after it was last seen, and at once when it was deleted here', async () => {
  const { state, topics } = openCluster()
  await topics.createTopic(spec)
  state.exists = false
  await expect(topics.offsets('things')).rejects.toMatchObject({ code: 'not_found' })
  expect(state.asked).toBeGreaterThan(10)
  await topics.createTopic(spec)
  await topics.deleteTopic('things')
  state.asked = 0
  expect(await topics.describeTopic('things')).toBeNull()
  await expect(topics.offsets('things')).rejects.toMatchObject({ code: 'not_found' })
  expect(state.asked).toBe(2)
})

test('a topic that was never seen is not waited for', async () => {
  const { state, topics } = openCluster()
  await expect(topics.offsets('things')).rejects.toMatchObject({ code: 'not_found' })
  expect(await topics.describeTopic('things')).toBeNull()
  expect(state.asked).toBe(2)
})

test('what is acknowledged has two copies wherever there are two brokers', async () => {
  const copies = []
  for (const brokers of [1, 2, 3, 5]) {
    const { state, topics } = openCluster(brokers)
    await topics.createTopic(spec)
    const [{ replicas, settings }] = state.created as [NewTopic]
    copies.push([replicas, settings.find(({ name }) => name === 'min.insync.replicas')?.value])
  }
  expect(copies).toEqual([
    [1, '1'],
    [2, '2'],
    [3, '2'],
    [3, '2'],
  ])
})
