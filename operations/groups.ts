/** Finds reader groups, and sets the positions from which one continues. */

import { type Static, Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { resetProgress } from '#services/vectors/write/progress.ts'
import { defineChange } from './change.ts'
import { groupsOf, type ReaderGroup } from './lag.ts'
import type { OperatedPlatform } from './operation.ts'

const resetArgs = Type.Object({
  group: Type.String(),
  to: Type.Union([Type.Literal('beginning'), Type.Literal('end'), Type.Integer({ minimum: 0 })]),
  partition: Type.Optional(Type.Integer({ minimum: 0 })),
})

export type ResetArgs = Static<typeof resetArgs>

interface ResetResult {
  group: string
  topic: string
  positions: { partition: number; offset: number }[]
}

export const resetGroupOperation = defineChange({
  name: 'groups reset',
  action: 'group.reset',
  targetOf: ({ group }) => group,
  args: resetArgs,
  async run({ platform, describe }, { group, to, partition }): Promise<ResetResult> {
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
