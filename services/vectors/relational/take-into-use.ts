/**
 * Says when the mirror has work, and makes its tables and the rows about its generations agree before anything is
 * written.
 */

import type { Logger } from 'pino'
import type { Mirror } from '#engines/relational/mirror/port.ts'
import { groupOfGeneration, listGenerations, prepareGroup, type RebuildParts } from '../write/rebuild.ts'

/**
 * False while an embedded mirror may remain closed: nothing has used it, its tables are there if they ever were, no
 * rebuild is under way, and its group has read all of the log.
 */
export async function isNeeded(mirror: Mirror, parts: RebuildParts): Promise<boolean> {
  const state = mirror.state()
  if (state === 'open') return true
  const { relational, index, eventLog, physicalName } = parts
  const generations = await listGenerations(relational, index)
  if (state === 'absent' && generations.length > 0) return true
  if (generations.some(({ state }) => state === 'building' || state === 'switching')) return true
  const live = generations.find(({ state }) => state === 'live')?.generation ?? 1
  const { committed } = await eventLog.groupState(groupOfGeneration(index, live), physicalName)
  const read = new Map(committed.map((one) => [one.partition, one.offset]))
  const ranges = await eventLog.offsets(physicalName)
  return ranges.some(({ partition, start, end }) => end > Math.max(start, read.get(partition) ?? 0))
}

/**
 * Fresh tables (at the first start, or after a mirror was lost) get a generation number that was never used, so that no
 * progress of an earlier generation counts for them; their group reads the log from the beginning. Any number of
 * instances may do so at once: all of them get the same number.
 */
export async function takeIntoUse(mirror: Mirror, parts: RebuildParts, log: Logger): Promise<void> {
  const { relational, index } = parts
  const known = await listGenerations(relational, index)
  const next = Math.max(0, ...known.map((one) => one.generation)) + 1
  const live = await mirror.adoptGeneration(next)
  const inUse = known.some(
    (one) => one.generation === live && (one.state === 'live' || one.state === 'switching'),
  )
  if (inUse) return
  if (live > 1) await prepareGroup(parts, live)
  await relational.transaction(async (tx) => {
    await tx.query(
      `update platform.index_generations set state = 'retired', updated_at = clock_timestamp()
       where index_name = $1 and generation <> $2 and state <> 'retired'`,
      [index.name, live],
    )
    await tx.query(
      `insert into platform.index_generations (index_name, generation, state) values ($1, $2, 'live')
       on conflict (index_name, generation) do update set state = 'live', updated_at = clock_timestamp()`,
      [index.name, live],
    )
  })
  for (const { generation } of known) {
    if (generation !== live) await parts.eventLog.deleteGroup(groupOfGeneration(index, generation))
  }
  if (known.length > 0) log.warn({ generation: live }, 'mirror.started-empty')
}
