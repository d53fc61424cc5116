/** How far each reader group is behind the log, partition by partition. */

import type { Logger } from 'pino'
import { Type } from 'typebox'
import type { GroupPositions, Groups, Log, PartitionOwner } from '#engines/event-log/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { hearNotices, lookRestMs } from '#runtime/notices.ts'
import type { TopicLocation } from '#runtime/publish/messages.ts'
import { mirrorSettings } from '#services/vectors/relational/settings.ts'
import { mirrorMaySleep } from '#services/vectors/relational/use.ts'
import { readStuck, type StuckRecord } from '#services/vectors/write/failures.ts'
import {
  generationsToWrite,
  groupOfGeneration,
  type Index,
  indexes,
  listGenerations,
  relationalIndex,
  shownGroup,
} from '#services/vectors/write/rebuild.ts'
import { catalog } from '#topics/catalog.ts'
import { defineOperation, type OperationContext } from './operation.ts'

export interface PartitionLag {
  partition: number
  /** The next offset to be read, null when none was ever committed. */
  committed: number | null
  start: number
  end: number
  lag: number
  /** The client whose member reads it now; null: nobody does. */
  owner: string | null
  /** Records between the position and the start, which are gone unread: Kafka's own tool counts them, the lag does not. */
  expired: number
}

export interface GroupLag {
  /** The same before and after a rebuild. */
  group: string
  /** As the log knows it: each generation of an index has its own. */
  group_id: string
  topic: string
  members: number
  lag: number
  /** Why nothing is read by design: the mirror sleeps, or is switched off; null: records should be read. */
  rests: MirrorRest
  partitions: PartitionLag[]
  /** Records that the writer of an index cannot get through, or that an operator wants passed. */
  stuck: StuckRecord[]
}

export type MirrorRest = 'asleep' | 'off' | null

export interface LagParts {
  /** Settings of the mirror are read from it. */
  env: Environment
  engines: { eventLog: Log & Groups; relational: SqlExecutor }
  locations: ReadonlyMap<string, TopicLocation>
}

/** Every group that the platform runs now: those of the catalogue, and one for each generation of an index. */
export async function readLag(parts: LagParts): Promise<GroupLag[]> {
  const { eventLog, relational } = parts.engines
  const mirrorRest = await readMirrorRest(parts)
  return Promise.all(
    (await readPositions(parts, await groupsOf(relational))).map(async ({ known, positions }) => {
      const { group, groupId, topic } = known
      const epoch = parts.locations.get(topic)?.epoch ?? 1
      const stuck = known.generation ? await readStuck(relational, { group: groupId, epoch }) : []
      const { members, owners } = await eventLog.groupState(groupId, positions.topic)
      const partitions = partitionLags(positions, owners)
      const rests = known.mayRest ? mirrorRest : null
      return { group, group_id: groupId, topic, members, lag: totalOf(partitions), rests, partitions, stuck }
    }),
  )
}

async function readMirrorRest({ env, engines }: Pick<LagParts, 'env' | 'engines'>): Promise<MirrorRest> {
  const { MIRROR, MIRROR_SLEEP_AFTER_MIN: sleepAfterMin } = loadConfig(mirrorSettings, env)
  if (MIRROR === 'off') return 'off'
  return sleepAfterMin > 0 && (await mirrorMaySleep(engines.relational)) ? 'asleep' : null
}

/** Only an operator sets a group back that has read all: that is seen in one reading of so many. */
const wholeEvery = 6

/**
 * Only how far each group is behind: what can be read every few seconds at little cost. Which groups there are is asked again when
 * the generations of an index change, and now and then.
 */
export function openGroupLags(
  parts: Omit<LagParts, 'env'> & { engines: { relational: Relational }; log: Logger },
) {
  const { relational } = parts.engines
  let changes = 0
  let last: GroupPositions[] = []
  let reads = 0
  let kept: { groups: ReaderGroup[]; readAt: number } | undefined
  const notices = hearNotices({ relational, log: parts.log }, 'flotilla_index_generations', () => {
    changes++
    kept = undefined
  })
  async function groups(): Promise<ReaderGroup[]> {
    if (kept && performance.now() - kept.readAt < lookRestMs(relational)) return kept.groups
    const [before, readAt] = [changes, performance.now()]
    const found = await groupsOf(relational)
    if (changes === before) kept = { groups: found, readAt }
    return found
  }
  return {
    async read(): Promise<Pick<GroupLag, 'group' | 'lag'>[]> {
      const since = reads++ % wholeEvery === 0 ? [] : last
      const read = await readPositions(parts, await groups(), since)
      last = read.map(({ positions }) => positions)
      return read.map(({ known, positions }) => ({
        group: known.group,
        lag: totalOf(partitionLags(positions)),
      }))
    },
    close: notices.close,
  }
}

async function readPositions(
  { engines, locations }: Omit<LagParts, 'env'>,
  groups: readonly ReaderGroup[],
  since?: readonly GroupPositions[],
): Promise<{ known: ReaderGroup; positions: GroupPositions }[]> {
  const positions = await engines.eventLog.groupPositions(
    groups.map(({ groupId, topic }) => ({
      group: groupId,
      topic: locations.get(topic)?.physicalName ?? topic,
    })),
    since,
  )
  return groups.map((known, index) => ({ known, positions: positions[index]! }))
}

export interface ReaderGroup {
  /** What people call it. */
  group: string
  /** As the log knows it. */
  groupId: string
  topic: string
  /** What it fills, if it is a group of an index. */
  generation?: { index: Index; generation: number }
  /** It writes the mirror, and no rebuild is under way. */
  mayRest?: boolean
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
        mayRest: index === relationalIndex && generations.every(({ state }) => state === 'live'),
      })),
    )
  }
  return catalog.flatMap((topic) =>
    topic.readers
      .flatMap((reader) =>
        'group' in reader ? (writing.get(reader.group) ?? [neverWritten(reader.group)]) : [],
      )
      .map((known) => ({ ...known, topic: topic.name })),
  )
}

/** A group before its first generation, where it has one: a mirror that was always off has none. */
function neverWritten(group: string): Omit<ReaderGroup, 'topic'> {
  return { group, groupId: group, mayRest: group === relationalIndex.writer }
}

export function partitionLags(
  { committed, ranges }: GroupPositions,
  owners: readonly PartitionOwner[] = [],
): PartitionLag[] {
  const positions = new Map(committed.map((one) => [one.partition, one.offset]))
  const ownerOf = new Map(owners.map(({ partition, clientId }) => [partition, clientId]))
  return ranges.map(({ partition, start, end }) => {
    const position = positions.get(partition) ?? null
    // Records that expired or were deleted unread are not waited for.
    const lag = Math.max(0, end - Math.max(position ?? start, start))
    const expired = Math.max(0, start - (position ?? start))
    return { partition, committed: position, start, end, lag, expired, owner: ownerOf.get(partition) ?? null }
  })
}

function totalOf(partitions: readonly PartitionLag[]): number {
  return partitions.reduce((sum, { lag }) => sum + lag, 0)
}

const refreshMs = 1_000

export interface LagResult {
  groups: GroupLag[]
  as_of: string
}

/** With `watch` an item once a second, until the operator gives up. */
export const lagOperation = defineOperation({
  name: 'lag',
  args: Type.Object({ watch: Type.Optional(Type.Boolean()) }),
  async run({ platform, output, signal }: OperationContext<LagResult>, { watch }): Promise<LagResult> {
    const read = async () => ({
      groups: await readLag(platform),
      as_of: new Date().toISOString(),
    })
    while (watch && !signal.aborted) {
      await output.item(await read())
      await sleep(refreshMs, signal)
    }
    return read()
  },
})
