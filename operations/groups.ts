/** Finds reader groups, and sets the positions from which one continues. */

import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { resetProgress } from '#services/vectors/write/progress.ts'
import { defineAction, tableOf } from './action.ts'
import { groupsOf, type ReaderGroup } from './lag.ts'
import type { OperatedPlatform } from './operation.ts'

/** The number of a partition. */
export const partitionNumber = Type.Integer({
  minimum: 0,
  maximum: 999_999,
  rule: 'It must be a whole number.',
})

export const resetGroupAction = defineAction({
  name: 'groups reset',
  summary: 'Set where a group continues to read; refused while it has members (stop its service first)',
  change: { action: 'group.reset', target: ({ group }) => group },
  args: Type.Object({
    group: Type.String(),
    to: Type.Union([Type.Literal('beginning'), Type.Literal('end'), Type.Integer({ minimum: 0 })], {
      rule: 'It must be beginning, end, or an offset.',
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
export async function findGroup(platform: OperatedPlatform, group: string): Promise<ReaderGroup> {
  const groups = await groupsOf(platform.engines.relational)
  const known = groups.find((one) => one.group === group) ?? groups.find((one) => one.groupId === group)
  if (known) return known
  const names = groups.map((one) => one.group).join(', ')
  throw new AppError('not_found', `There is no group named ${group}. There are: ${names}.`)
}
