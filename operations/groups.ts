/**
 * Reader groups: sets the positions from which one continues, and lets the writer of an index pass a record that it
 * cannot get through.
 */

import { Type } from 'typebox'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { listDeadLetters } from '#runtime/consume/dead-letters.ts'
import { readOne } from '#runtime/follow/read-records.ts'
import type { TopicLocation } from '#runtime/publish/messages.ts'
import { markSkipped, operationHeader } from '#services/vectors/write/failures.ts'
import { resetProgress } from '#services/vectors/write/progress.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'
import { type Action, defineAction, tableOf } from './action.ts'
import { deadLetterParts } from './dead-letters/letters.ts'
import { findTopic } from './find-topic.ts'
import { groupsOf, type ReaderGroup, readLag } from './lag.ts'
import type { OperatedPlatform } from './operation.ts'

/** The number of a partition. */
const partitionNumber = Type.Integer({ minimum: 0, maximum: 999_999 })

const listGroupsAction = defineAction({
  name: 'groups list',
  summary: 'The reader groups of the platform, and how far each is behind',
  args: Type.Object({}),
  run: async ({ platform }) => ({ groups: await readLag(platform) }),
  cli: [
    {
      example: 'flotilla groups list',
      render: ({ groups }) =>
        tableOf(groups, {
          group: ({ group }) => group,
          topic: ({ topic }) => topic,
          members: ({ members }) => members,
          lag: ({ lag }) => lag,
        }),
    },
  ],
})

export const resetGroupAction = defineAction({
  name: 'groups reset',
  summary: 'Set where a group continues to read; refused while it has members (stop its service first)',
  change: { action: 'group.reset', target: ({ group }) => group },
  args: Type.Object({
    group: Type.String(),
    to: Type.Union([Type.Literal('beginning'), Type.Literal('end'), Type.Integer({ minimum: 0 })], {
      rule: 'beginning, end, or an offset',
    }),
    partition: Type.Optional(partitionNumber),
  }),
  async run({ platform, describe }, { group, to, partition }) {
    const { eventLog } = platform.engines
    const known = await findGroup(platform, group)
    const physicalName = platform.locations.get(known.topic)?.physicalName ?? known.topic
    const ranges = (await eventLog.offsets(physicalName)).filter(
      (range) => partition === undefined || range.partition === partition,
    )
    if (ranges.length === 0) throw new AppError('not_found', `${known.topic} has no partition ${partition}.`)
    const positions = ranges.map(({ partition, start, end }) => {
      const offset = to === 'beginning' ? start : to === 'end' ? end : to
      if (offset < start || offset > end) {
        throw new AppError('bad_request', `Partition ${partition} holds the offsets ${start} to ${end}.`)
      }
      return { partition, offset }
    })
    const { committed } = await eventLog.groupState(known.groupId, physicalName)
    describe({
      target: known.group,
      before: changedOf(committed, positions),
      after: positions,
      count: positions.length,
    })
    await eventLog.setPositions(known.groupId, physicalName, positions)
    if (known.generation) {
      // Else the next owner would begin behind what was reported before.
      const { index, generation } = known.generation
      const { codec, publisher, log } = platform
      await resetProgress({ index, eventLog, codec, publisher, log }, generation, positions)
    }
    return { group: known.group, topic: known.topic, positions }
  },
  cli: [
    {
      positional: ['group'],
      options: {
        to: ['position', 'beginning, end, or an offset'],
        partition: ['number', 'only this partition'],
      },
      read(given) {
        if (typeof given.to !== 'number' || given.partition !== undefined) return given
        throw new AppError('bad_request', 'An offset belongs to one partition: name it with --partition.')
      },
      example: 'flotilla groups reset audit-writer --to beginning',
      render: ({ positions }) =>
        tableOf(positions, {
          partition: ({ partition }) => partition,
          'continues at': ({ offset }) => offset,
        }),
    },
  ],
})

/** The committed positions of the partitions that are set. */
function changedOf(
  committed: readonly { partition: number; offset: number }[],
  set: readonly { partition: number }[],
) {
  const changed = new Set(set.map(({ partition }) => partition))
  return committed
    .filter(({ partition }) => changed.has(partition))
    .map(({ partition, offset }) => ({ partition, offset }))
}

/** By what people call it, or by its name in the log. Throws AppError `not_found`. */
async function findGroup(platform: OperatedPlatform, group: string): Promise<ReaderGroup> {
  const groups = await groupsOf(platform.engines.relational)
  const known = groups.find((one) => one.group === group) ?? groups.find((one) => one.groupId === group)
  if (known) return known
  const names = groups.map((one) => one.group).join(', ')
  throw new AppError('not_found', `There is no group named ${group}. There are: ${names}.`)
}

/** A writer sees the mark within a second; its call under way may have to end first, and the group may be waiting. */
const parkedWithinMs = 60_000
const pollMs = 200
const readMsMax = 30_000

interface SkipRecordResult {
  group: string
  topic: string
  partition: number
  offset: number
  /** The record's own key: collection and id of its point. */
  key: string
  /** The number of the operation that it belongs to, which is reported as failed. */
  operation: string | null
  /** `applied`: it got through before it could be parked. `waiting`: marked; parked as soon as a writer is there. */
  outcome: 'parked' | 'applied' | 'waiting'
  dead_letter: string | null
}

export const skipRecordAction = defineAction({
  name: 'groups skip',
  summary: 'Park a record that never gets through, so that its writer continues; its operation fails',
  change: { action: 'group.skip', target: ({ group }) => group },
  args: Type.Object({
    group: Type.String({ description: 'of the writer of an index' }),
    partition: partitionNumber,
    offset: Type.Integer({ minimum: 0, maximum: 1e15 - 1, rule: 'an offset' }),
  }),
  async run({ platform, signal, describe }, { group, partition, offset }): Promise<SkipRecordResult> {
    const { group: shown, groupId, topic: name, generation } = await findGroup(platform, group)
    if (!generation) {
      throw new AppError(
        'conflict',
        `${group} gives records up by itself (\`flotilla dead-letters list\`); of webhooks, \`flotilla webhooks skip\` passes one.`,
      )
    }
    const topic = findTopic(name)
    const location = platform.publisher.locationOf(topic)
    const place = { platform, groupId, location, partition, offset }
    const { position } = await positionOf(place)
    if (position > offset) {
      throw new AppError('conflict', `${group} has passed ${partition}/${offset}: it is at ${position}.`)
    }
    const { key, headers } = await recordOf(place)
    const { epoch } = location
    const text = key?.toString() ?? ''
    await markSkipped(
      platform.engines.relational,
      { group: groupId, epoch },
      { partition, offset, key: text },
    )
    describe({ target: shown, after: { partition, offset, key: text } })
    const passed = await untilPassed(place, signal)
    const letter = deadLettersOf(topic).key({ group: groupId, partition, offset, epoch })
    const letters = await listDeadLetters(deadLetterParts(platform), { topic: name, key: letter })
    const parked = letters.length > 0
    return {
      group: shown,
      topic: name,
      partition,
      offset,
      key: text,
      operation: headers[operationHeader] ?? null,
      outcome: parked ? 'parked' : passed ? 'applied' : 'waiting',
      dead_letter: parked ? letter : null,
    }
  },
  cli: [
    {
      positional: ['group'],
      options: {
        partition: ['number', 'its partition'],
        offset: ['number', 'its offset, as `flotilla lag` shows it'],
      },
      example: 'flotilla groups skip vector-writer --partition 3 --offset 1742',
      render: shownSkip,
      exit: ({ outcome }) => (outcome === 'waiting' ? 1 : 0),
    },
  ],
})

export const groupActions: readonly Action[] = [listGroupsAction, resetGroupAction, skipRecordAction]

function shownSkip(result: SkipRecordResult): string {
  const { group, partition, offset, key, operation, outcome, dead_letter: letter } = result
  const what = `${group}: ${partition}/${offset} (${key})`
  if (outcome === 'parked') {
    const failed = operation === null ? '' : `, and its operation ${operation} failed`
    return `${what} is passed: it is now the dead letter ${letter}${failed}`
  }
  if (outcome === 'applied') return `${what} got through before it could be passed`
  return `${what} is marked; it is passed as soon as a writer comes to it`
}

interface Place {
  platform: OperatedPlatform
  groupId: string
  location: TopicLocation
  partition: number
  offset: number
}

async function positionOf({
  platform,
  groupId,
  location,
  partition,
}: Place): Promise<{ position: number; members: number }> {
  const { committed, members } = await platform.engines.eventLog.groupState(groupId, location.physicalName)
  const position = committed.find((one) => one.partition === partition)?.offset ?? 0
  return { position, members }
}

/** Throws AppError `not_found` where the log holds no such record. */
async function recordOf({ platform, location, partition, offset }: Place): Promise<StoredRecord> {
  const topic = location.physicalName
  const place = { topic, partition, offset, timeoutMs: readMsMax }
  const found = await readOne(platform.engines.eventLog, place)
  if (!found) throw new AppError('not_found', `${topic} holds no record at ${partition}/${offset}.`)
  return found
}

/** True once the group has passed the record; false where no writer runs, or not in time. */
async function untilPassed(place: Place, signal: AbortSignal): Promise<boolean> {
  const end = performance.now() + parkedWithinMs
  while (performance.now() < end && !signal.aborted) {
    const { position, members } = await positionOf(place)
    if (position > place.offset) return true
    if (members === 0) return false
    await sleep(pollMs, signal)
  }
  return false
}
