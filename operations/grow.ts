/**
 * Adds partitions to a topic, offline: keys move to other partitions, so nothing may be reading or left to read. A
 * compacted topic is copied, key by key, into a new one under a new epoch; the others get empty partitions.
 */

import { Type } from 'typebox'
import type { EventLog, NewRecord, PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import type { Environment } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { plural } from '#lib/plural.ts'
import { readRecords } from '#runtime/follow/read-records.ts'
import { untilVisible } from '#runtime/publish/added-partitions.ts'
import type { TopicLocation } from '#runtime/publish/messages.ts'
import { topicSpecOf } from '#runtime/publish/topics.ts'
import type { Progress } from '#runtime/start/control.ts'
import { catalog } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import { defineAction } from './action.ts'
import { findTopic } from './find-topic.ts'
import { groupsOf, readLag } from './lag.ts'

const partitionsMax = 1_024
const appendRecords = 500
const appendBytes = 800_000
const appendTimeoutMs = 30_000
/** Nothing may have been written to the old topic for this long before it is deleted. */
const settleMs = 2_000

interface GrowParts {
  env: Environment
  engines: { eventLog: EventLog; relational: Relational }
  locations: Map<string, TopicLocation>
  progress(state: Progress): void
  signal: AbortSignal
}

/**
 * Resolves with the topic's new place. Throws AppError `group_active` while groups have members, `conflict` while they
 * have something left to read, `bad_request` for a count that is not larger.
 */
export async function growTopic(parts: GrowParts, topic: Topic, partitions: number): Promise<TopicLocation> {
  const location = parts.locations.get(topic.name)
  if (!location) throw new AppError('not_found', `There is no topic named ${topic.name}.`)
  if (partitions <= location.partitions || partitions > partitionsMax) {
    throw new AppError(
      'bad_request',
      `${topic.name} has ${plural(location.partitions, 'partition')}; name more, at most ${partitionsMax}.`,
    )
  }
  if (topic.owned && partitions % topic.partitions !== 0) {
    throw new AppError('bad_request', `${topic.name} grows by ${topic.partitions} at a time, and by itself.`)
  }
  const groups = await drainedGroups(parts, topic)
  if (topic.cleanup === 'compact') return growByCopy(parts, topic, location, partitions, groups)
  return growInPlace(parts, topic, location, partitions, groups)
}

/** The topic's groups as the log knows them, once none of the platform has members and these have nothing left to read. */
async function drainedGroups(parts: GrowParts, topic: Topic): Promise<string[]> {
  for (const { group, topic: name, members, lag, rests } of await readLag(parts)) {
    if (members > 0) {
      throw new AppError(
        'group_active',
        `The group ${group} has ${plural(members, 'member')}: stop the platform first, a topic grows offline.`,
      )
    }
    if (name === topic.name && lag > 0) {
      throw new AppError(
        'conflict',
        `The group ${group} has ${plural(lag, 'record')} left to read, and keys would move to other partitions: start its service${rests === 'off' ? ' with MIRROR=on' : ''}, wait until \`flotilla lag\` shows 0, and stop it again.`,
      )
    }
  }
  const groups = await groupsOf(parts.engines.relational)
  return groups.filter((one) => one.topic === topic.name).map((one) => one.groupId)
}

async function growInPlace(
  parts: GrowParts,
  topic: Topic,
  location: TopicLocation,
  partitions: number,
  groups: string[],
): Promise<TopicLocation> {
  const { eventLog } = parts.engines
  // An earlier try may have added them and then stopped.
  const present = (await eventLog.offsets(location.physicalName)).length
  if (present < partitions) await eventLog.addPartitions(location.physicalName, partitions)
  const ranges = await untilVisible(eventLog, location.physicalName, partitions)
  const added = ranges.slice(location.partitions)
  const positions = added.map((range) => ({ partition: range.partition, offset: range.start }))
  for (const group of groups) await eventLog.setPositions(group, location.physicalName, positions)
  return settle(parts, topic, { ...location, partitions })
}

/**
 * The new topic counts only once the topic's row names it, so a copy that was interrupted starts again. What was written
 * to the old one meanwhile is copied before it is deleted.
 */
async function growByCopy(
  parts: GrowParts,
  topic: Topic,
  location: TopicLocation,
  partitions: number,
  groups: string[],
): Promise<TopicLocation> {
  const { eventLog } = parts.engines
  const epoch = location.epoch + 1
  const grown = { physicalName: `${topic.name}.e${epoch}`, epoch, partitions }
  if (await eventLog.describeTopic(grown.physicalName)) await eventLog.deleteTopic(grown.physicalName)
  await eventLog.createTopic(topicSpecOf(topic, grown))
  const newest = await findNewest(parts, location)
  const copying: Copying = { parts, from: location.physicalName, to: grown }
  const copied = await copyRecords(
    copying,
    (range) => range.start,
    // A deleted key has nothing in the new topic that a tombstone would have to hide.
    (record) => record.value !== null && newest.get(placeKey(record)) === record.offset,
  )
  // What was copied had been read by every group already.
  const ends = await eventLog.offsets(grown.physicalName)
  const positions = ends.map(({ partition, end }) => ({ partition, offset: end }))
  for (const group of groups) await eventLog.setPositions(group, grown.physicalName, positions)
  await settle(parts, topic, grown)
  await carryOver(copying, copied)
  await eventLog.deleteTopic(location.physicalName)
  return grown
}

async function settle(parts: GrowParts, topic: Topic, location: TopicLocation): Promise<TopicLocation> {
  await parts.engines.relational.query(
    'update platform.topics set physical_name = $2, epoch = $3, partitions = $4 where name = $1',
    [topic.name, location.physicalName, location.epoch, location.partitions],
  )
  parts.locations.set(topic.name, location)
  return location
}

/** Partition and key → offset of the key's last record. Only keys are held in memory, never values. */
async function findNewest(parts: GrowParts, location: TopicLocation): Promise<Map<string, number>> {
  const newest = new Map<string, number>()
  await readAll(
    parts,
    location.physicalName,
    'finding the newest records',
    (range) => range.start,
    (records) => {
      for (const record of records) newest.set(placeKey(record), record.offset)
    },
  )
  return newest
}

interface Copying {
  parts: GrowParts
  from: string
  to: TopicLocation
}

/** Copies chosen records to the partitions of their keys, in order; resolves with the ranges that were read. */
async function copyRecords(
  { parts, from, to }: Copying,
  startOf: (range: PartitionRange) => number,
  chosen: (record: StoredRecord) => boolean,
): Promise<PartitionRange[]> {
  return readAll(parts, from, 'copying', startOf, async (records) => {
    const batches = new Map<number, { records: NewRecord[]; bytes: number }[]>()
    for (const record of records) {
      if (!record.key || !chosen(record)) continue
      const partition = partitionOf(record.key, to.partitions)
      const list = batches.get(partition) ?? []
      batches.set(partition, list)
      addTo(list, record)
    }
    for (const [partition, list] of batches) {
      for (const batch of list) {
        await parts.engines.eventLog.append(to.physicalName, partition, batch.records, {
          timeoutMs: appendTimeoutMs,
        })
      }
    }
  })
}

function addTo(list: { records: NewRecord[]; bytes: number }[], { key, value, headers }: StoredRecord): void {
  const last = list.at(-1)
  const bytes = value?.length ?? 0
  if (last && last.records.length < appendRecords && last.bytes + bytes <= appendBytes) {
    last.records.push({ key, value, headers })
    last.bytes += bytes
  } else {
    list.push({ records: [{ key, value, headers }], bytes })
  }
}

async function carryOver(copying: Copying, copied: PartitionRange[]): Promise<void> {
  let read = copied
  for (;;) {
    await sleep(settleMs)
    const ends = new Map(read.map((range) => [range.partition, range.end]))
    const now = await copying.parts.engines.eventLog.offsets(copying.from)
    if (now.every((range) => range.end === ends.get(range.partition))) return
    read = await copyRecords(
      copying,
      (range) => ends.get(range.partition) ?? range.start,
      () => true,
    )
  }
}

async function readAll(
  parts: GrowParts,
  topic: string,
  label: string,
  startOf: (range: PartitionRange) => number,
  handle: (records: StoredRecord[]) => void | Promise<void>,
): Promise<PartitionRange[]> {
  const ranges = await parts.engines.eventLog.offsets(topic)
  const total = ranges.reduce((sum, range) => sum + range.end - startOf(range), 0)
  let done = 0
  const read = await readRecords({
    eventLog: parts.engines.eventLog,
    topic,
    startOf,
    signal: parts.signal,
    async records(records) {
      await handle(records)
      done += records.length
      parts.progress({ label, done, total })
    },
  })
  if (parts.signal.aborted)
    throw new AppError('shutting_down', 'Stopped before the end: the topic is unchanged.')
  return read
}

function placeKey(record: StoredRecord): string {
  return `${record.partition}/${record.key?.toString('latin1') ?? ''}`
}

export const growTopicAction = defineAction({
  name: 'topics grow',
  summary: 'Add partitions; the platform must be stopped, and its workers must have read everything',
  change: { action: 'topic.grow', target: ({ topic }) => topic },
  args: Type.Object({
    topic: Type.String({ description: `of: ${catalog.map(({ name }) => name).join(', ')}` }),
    partitions: Type.Integer({ minimum: 1, maximum: 99_999 }),
  }),
  async run({ platform, output, signal, describe }, { topic, partitions }) {
    const before = platform.locations.get(topic)
    describe({ before: before && { ...before }, after: { partitions } })
    const progress = output.progress.bind(output)
    const location = await growTopic({ ...platform, progress, signal }, findTopic(topic), partitions)
    describe({ after: { ...location } })
    return {
      topic,
      partitions: location.partitions,
      physical_name: location.physicalName,
      epoch: location.epoch,
    }
  },
  cli: [
    {
      positional: ['topic'],
      options: { partitions: ['count', 'the new number'] },
      example: 'flotilla topics grow vectors.commands --partitions 24',
      render: ({ topic, partitions, physical_name, epoch }) =>
        `${topic} has ${partitions} partitions (${physical_name}, epoch ${epoch})`,
    },
  ],
})
