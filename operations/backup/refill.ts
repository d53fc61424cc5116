/**
 * What a restored platform needs before it starts: a new time for ids that name places in the log, and the vector index
 * filled from the log.
 */

import { Type } from 'typebox'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import {
  beginRebuild,
  groupOfGeneration,
  listGenerations,
  readRebuildStatus,
  vectorsIndex,
} from '#services/vectors/write/rebuild.ts'
import { hubRecords, vectorsCommands } from '#topics/catalog.ts'
import { groupsOf } from '../lag.ts'
import { defineOperation, type OperatedPlatform, type OperationContext } from '../operation.ts'
import { partsOf } from '../rebuild.ts'

const pollMs = 250
/** Ids of operations and of the hub's streams name offsets of these. */
const namedByIds = [vectorsCommands.name, hubRecords.name]

/**
 * Records after the backup are gone, and their offsets will be given to others. With another epoch the ids that name them
 * are unknown (404), instead of meaning something else; and what was said about the old index does not count for the new
 * one, which begins empty. Nothing may run meanwhile: throws AppError `group_active`. May be repeated.
 */
export const beginAgainOperation = defineOperation({
  name: 'restore-begin',
  needs: ['vectors'],
  args: Type.Object({}),
  async run({ platform }: OperationContext): Promise<{ generation: number }> {
    const { relational, eventLog } = platform.engines
    await demandNoMembers(platform)
    const parts = partsOf(platform, vectorsIndex, platform.engines.vectors)
    await relational.query('update platform.topics set epoch = epoch + 1 where name = any($1::text[])', [
      namedByIds,
    ])
    // Their points are not in the engine any more, or not those of this log.
    const former = await listGenerations(relational, vectorsIndex)
    await relational.query(
      `update platform.index_generations set state = 'retired', updated_at = clock_timestamp()
       where index_name = $1 and state <> 'retired'`,
      [vectorsIndex.name],
    )
    for (const { generation } of former) {
      await eventLog.deleteGroup(groupOfGeneration(vectorsIndex, generation))
    }
    return { generation: await beginRebuild(parts) }
  },
})

/** Resolves when the generation is in use and holds all that the log does. */
export const refillOperation = defineOperation({
  name: 'restore-refill',
  needs: ['vectors'],
  services: [vectorsIndex.writer],
  args: Type.Object({ generation: Type.Integer() }),
  async run({ platform, output, signal }: OperationContext, { generation }): Promise<{ records: number }> {
    const parts = partsOf(platform, vectorsIndex, platform.engines.vectors)
    for (;;) {
      const { state, done, total } = await readRebuildStatus(parts, generation)
      output.progress({ label: 'filling the vector index', done, total })
      if (state === 'live' && done >= total) return { records: total }
      if (signal.aborted) throw new AppError('shutting_down', 'The restore was cancelled: run it again.')
      await sleep(pollMs, signal)
    }
  },
})

async function demandNoMembers({ engines, locations }: OperatedPlatform): Promise<void> {
  for (const { group, groupId, topic } of await groupsOf(engines.relational)) {
    const { members } = await engines.eventLog.groupState(
      groupId,
      locations.get(topic)?.physicalName ?? topic,
    )
    if (members === 0) continue
    throw new AppError('group_active', `${group} is running: stop every service of the platform first.`)
  }
}
