/**
 * What operators do with topics and groups of the embedded log: create, describe, grow, cut and delete, one change
 * after the other.
 */

import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { EventLog } from '../port.ts'
import type { Groups } from './groups.ts'
import type { Positions } from './positions.ts'
import { bounded, type Threads } from './threads.ts'
import { rangeOf, type Topics } from './topics.ts'
import type { WriteQueue } from './write-queue.ts'

const callTimeoutMs = deadlines.engine.logAdminMs
const partitionsMax = 10_000
/** As in Kafka (org.apache.kafka.common.internals.Topic). */
const topicName = /^[A-Za-z0-9._-]{1,249}$/

export type Administration = Pick<
  EventLog,
  | 'createTopic'
  | 'describeTopic'
  | 'listTopics'
  | 'deleteTopic'
  | 'addPartitions'
  | 'offsets'
  | 'partitionFacts'
  | 'deleteRecords'
  | 'listGroups'
  | 'groupState'
  | 'groupPositions'
  | 'setPositions'
  | 'deleteGroup'
>

interface AdministrationParts {
  clientId: string
  threads: Threads
  topics: Topics
  positions: Positions
  groups: Groups
  queue: WriteQueue
}

export function createAdministration(parts: AdministrationParts): Administration {
  return { ...topicCalls(parts), ...groupCalls(parts) }
}

function topicCalls({ threads, topics, positions }: AdministrationParts) {
  const write = threads.writer.call
  let last: Promise<unknown> = Promise.resolve()
  /** Each change sees what the one before it has made. */
  function inTurn<T>(change: () => Promise<T>): Promise<T> {
    const mine = last.then(change)
    last = mine.catch(() => {})
    return mine
  }
  return {
    createTopic: (spec) =>
      inTurn(async () => {
        checkSpec(spec.name, spec.partitions)
        const made = await bounded(write.createTopic(spec), callTimeoutMs)
        if (made) topics.add(made)
        return made !== null
      }),
    async describeTopic(name) {
      const topic = topics.byName.get(name)
      return topic ? { ...topic.spec } : null
    },
    listTopics: async () => [...topics.byName.keys()].toSorted(),
    deleteTopic: (name) =>
      inTurn(async () => {
        const topic = topics.topic(name)
        await bounded(write.deleteTopic(name), callTimeoutMs)
        topics.remove(topic)
        positions.forgetTopic(name)
      }),
    addPartitions: (name, total) =>
      inTurn(async () => {
        checkSpec(name, total)
        const topic = topics.topic(name)
        const from = topic.partitions.length
        if (total <= from) return
        topics.grow(topic, await bounded(write.addPartitions(topic.spec, from, total), callTimeoutMs))
      }),
    offsets: async (name) => topics.topic(name).partitions.map(rangeOf),
    partitionFacts: async (name) => {
      const { weigh } = threads.reader.call
      const states = topics.topic(name).partitions
      const weighed = states.map(async ({ id, partition, end }) => {
        const bytes = await bounded(weigh(id, end), callTimeoutMs)
        return { partition, leader: null, replicas: 1, inSync: 1, bytes }
      })
      return Promise.all(weighed)
    },
    deleteRecords: (name, partition, before) =>
      inTurn(async () => {
        const state = topics.partition(name, partition)
        if (!Number.isSafeInteger(before) || before < 0 || before > state.end) {
          throw new AppError('bad_request', `Records can be deleted below an offset up to ${state.end}.`)
        }
        if (before <= state.start) return
        const start = await bounded(write.trim(state.id, before), callTimeoutMs)
        state.start = Math.max(state.start, start)
        for (const reader of [...state.readers]) reader.changed()
      }),
  } satisfies Partial<Administration>
}

function groupCalls({ clientId, threads, topics, positions, groups, queue }: AdministrationParts) {
  function refuseActive(group: string): void {
    if (groups.members(group) > 0) {
      throw new AppError('group_active', `The group ${group} has members; stop them first.`)
    }
  }
  return {
    listGroups: async () => [...new Set([...positions.groups(), ...groups.names()])].toSorted(),
    async groupState(group, topic) {
      const members = groups.members(group, topic)
      return {
        members,
        clientIds: members > 0 ? [clientId] : [],
        owners: groups.owned(group, topic).map((partition) => ({ partition, clientId })),
        committed: positions.list(group, topic),
      }
    },
    groupPositions: async (asked) =>
      asked.map(({ group, topic }) => ({
        group,
        topic,
        committed: positions.list(group, topic),
        ranges: topics.topic(topic).partitions.map(rangeOf),
      })),
    async setPositions(group, topic, offsets) {
      refuseActive(group)
      const rows = offsets.map(({ partition, offset }) => {
        topics.partition(topic, partition)
        if (!Number.isSafeInteger(offset) || offset < 0) {
          throw new AppError('bad_request', 'A position is a whole number, 0 or more.')
        }
        return { group, topic, partition, offset, metadata: '' }
      })
      await bounded(
        queue.commit(rows).then(() => positions.keep(rows)),
        callTimeoutMs,
      )
    },
    async deleteGroup(group) {
      refuseActive(group)
      await bounded(
        threads.writer.call.deleteGroup(group).then(() => positions.forgetGroup(group)),
        callTimeoutMs,
      )
    },
  } satisfies Partial<Administration>
}

function checkSpec(name: string, partitions: number): void {
  if (!topicName.test(name)) {
    throw new AppError(
      'bad_request',
      'A topic name has 1 to 249 letters, digits, dots, hyphens and underscores.',
    )
  }
  if (!Number.isInteger(partitions) || partitions < 1 || partitions > partitionsMax) {
    throw new AppError('bad_request', `A topic has 1 to ${partitionsMax} partitions.`)
  }
}
