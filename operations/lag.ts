/** How far each reader group is behind the log, partition by partition. */

import { Type } from 'typebox'
import type { EventLog } from '#engines/event-log/port.ts'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import type { TopicLocation } from '#runtime/messages.ts'
import { type Index, indexes } from '#services/vectors/index/indexes.ts'
import {
  generationsToWrite,
  groupOfGeneration,
  listGenerations,
  shownGroup,
} from '#services/vectors/index/rebuild.ts'
import { readStuck, type StuckRecord } from '#services/vectors/index/stuck.ts'
import { catalog } from '#topics/catalog.ts'
import { defineOperation, type OperationContext } from './operation.ts'

export interface PartitionLag {
  partition: number
  /** The next offset to be read, null when none was ever committed. */
  committed: number | null
  start: number
  end: number
  lag: number
}

export interface GroupLag {
  /** The same before and after a rebuild. */
  group: string
  /** As the log knows it: each generation of an index has its own. */
  group_id: string
  topic: string
  members: number
  lag: number
  partitions: PartitionLag[]
  /** Records that the writer of an index cannot get through, or that an operator wants passed. */
  stuck: StuckRecord[]
}

export interface LagParts {
  eventLog: EventLog
  relational: SqlExecutor
  locations: ReadonlyMap<string, TopicLocation>
}

/** Every group that the platform runs now: those of the catalogue, and one for each generation of an index. */
export async function readLag(parts: LagParts): Promise<GroupLag[]> {
  const groups = await groupsOf(parts.relational)
  return Promise.all(
    groups.map(async (known) => {
      const { group, groupId, topic } = known
      const { physicalName, epoch } = parts.locations.get(topic) ?? { physicalName: topic, epoch: 1 }
      const stuck = known.generation ? await readStuck(parts.relational, { group: groupId, epoch }) : []
      const read = await readGroupLag(parts.eventLog, groupId, physicalName)
      return { group, group_id: groupId, topic, ...read, stuck }
    }),
  )
}

export interface ReaderGroup {
  /** What people call it. */
  group: string
  /** As the log knows it. */
  groupId: string
  topic: string
  /** What it fills, if it is a group of an index. */
  generation?: { index: Index; generation: number }
}

/** The groups with their topics. */
export async function groupsOf(relational: SqlExecutor): Promise<ReaderGroup[]> {
  const writing = new Map<string, Omit<ReaderGroup, 'topic'>[]>()
  for (const index of indexes) {
    const generations = generationsToWrite(await listGenerations(relational, index))
    if (generations.length === 0) continue
    writing.set(
      index.writer,
      generations.map((one) => ({
        group: shownGroup(index, one),
        groupId: groupOfGeneration(index, one.generation),
        generation: { index, generation: one.generation },
      })),
    )
  }
  return catalog.flatMap((topic) =>
    topic.readers
      .flatMap((reader) =>
        'group' in reader
          ? (writing.get(reader.group) ?? [{ group: reader.group, groupId: reader.group }])
          : [],
      )
      .map((known) => ({ ...known, topic: topic.name })),
  )
}

async function readGroupLag(
  eventLog: EventLog,
  groupId: string,
  physicalName: string,
): Promise<Pick<GroupLag, 'members' | 'lag' | 'partitions'>> {
  const [state, ranges] = await Promise.all([
    eventLog.groupState(groupId, physicalName),
    eventLog.offsets(physicalName),
  ])
  const committed = new Map(state.committed.map((one) => [one.partition, one.offset]))
  const partitions = ranges.map(({ partition, start, end }) => {
    const position = committed.get(partition) ?? null
    // Records that expired or were deleted unread are not waited for.
    const lag = Math.max(0, end - Math.max(position ?? start, start))
    return { partition, committed: position, start, end, lag }
  })
  const lag = partitions.reduce((sum, partition) => sum + partition.lag, 0)
  return { members: state.members, lag, partitions }
}

export type { StuckRecord }

const refreshMs = 1_000

export interface LagResult {
  groups: GroupLag[]
  as_of: string
}

/** With `watch` an item once a second, until the operator gives up. */
export const lagOperation = defineOperation({
  name: 'lag',
  needs: [],
  args: Type.Object({ watch: Type.Optional(Type.Boolean()) }),
  async run({ platform, output, signal }: OperationContext<LagResult>, { watch }): Promise<LagResult> {
    const read = async () => ({
      groups: await readLag({
        eventLog: platform.engines.eventLog,
        relational: platform.engines.relational,
        locations: platform.locations,
      }),
      as_of: new Date().toISOString(),
    })
    while (watch && !signal.aborted) {
      await output.item(await read())
      await sleep(refreshMs, signal)
    }
    return read()
  },
})
