/**
 * What can be said of the reader groups while somebody looks at them: how long the oldest record waits, how fast records
 * come and go, and when nothing will be left. It costs nothing while nobody looks.
 */

import { withTimeout } from '#lib/backoff.ts'
import type { GroupLag, LagParts, LagResult, PartitionLag } from '#operations/lag.ts'
import { readFirst } from '#runtime/follow/read-records.ts'
import type { LagSample } from './lag-history.ts'

/** Rates are taken over this time. */
const windowMs = 120_000
/** Between two samples of it, and the least that a rate needs. */
const sampleMs = 4_000
/** The oldest pending record is read from the log: an answer waits for it this long. */
const oldestWithinMs = 500

/** Times in seconds, rates in records a second; null: not known (yet), or there is nothing to say. */
export interface Pace {
  behind_s: number | null
  in_per_s: number | null
  out_per_s: number | null
  clears_in_s: number | null
}

type LookedPartition = PartitionLag & Pace
export type LookedGroup = Omit<GroupLag, 'partitions'> & Pace & { partitions: LookedPartition[] }

export interface LookedLag extends Omit<LagResult, 'groups'> {
  groups: LookedGroup[]
}

interface GroupLooksParts {
  readOldest(group: GroupLag): Promise<Map<number, OldestUnread>>
  /** The curve of the last minutes. */
  samplesOf(group: string, minutes: number): readonly LagSample[] | null
  now?: () => number
}

interface Sample {
  atMs: number
  /** By partition. */
  places: Map<number, { position: number; end: number }>
}

export function createGroupLooks({ readOldest, samplesOf, now = Date.now }: GroupLooksParts) {
  const samples = new Map<string, Sample[]>()
  const oldest = new Map<string, Map<number, OldestUnread>>()
  const reading = new Map<string, Promise<void>>()

  /** The first sample of the window; the present one is kept when the last is old enough. */
  function sampled({ group_id, partitions }: GroupLag): Sample | undefined {
    const atMs = now()
    const own = (samples.get(group_id) ?? []).filter((one) => atMs - one.atMs <= windowMs)
    const [first] = own
    if (atMs - (own.at(-1)?.atMs ?? 0) >= sampleMs) {
      own.push({
        atMs,
        places: new Map(
          partitions.map((one) => [one.partition, { position: positionOf(one), end: one.end }]),
        ),
      })
    }
    samples.set(group_id, own)
    return first && atMs - first.atMs >= sampleMs ? first : undefined
  }

  /** One reading at a time for each group; where no position has moved, none. */
  function refreshed(group: GroupLag): Promise<void> | undefined {
    const known = oldest.get(group.group_id)
    const isKnown = (one: PartitionLag) =>
      one.lag === 0 || known?.get(one.partition)?.position === positionOf(one)
    if (group.partitions.every(isKnown)) return undefined
    const under = reading.get(group.group_id)
    if (under) return under
    const read = readOldest(group)
      .then(
        (found) => void oldest.set(group.group_id, found),
        // The log is away: the last figures serve, and the next look tries again.
        () => {},
      )
      .finally(() => reading.delete(group.group_id))
    reading.set(group.group_id, read)
    return read
  }

  function behindOf(group: GroupLag, { partition, lag }: PartitionLag): number | null {
    const atMs = oldest.get(group.group_id)?.get(partition)?.atMs
    return lag === 0 || atMs === undefined ? null : Math.max(0, now() - atMs) / 1_000
  }

  function looked(group: GroupLag): LookedGroup {
    const first = sampled(group)
    const seconds = first ? (now() - first.atMs) / 1_000 : 0
    const partitions = group.partitions.map((one): LookedPartition => {
      const before = first?.places.get(one.partition)
      const rates = before ? ratesOf(before, one, seconds) : { in_per_s: null, out_per_s: null }
      const pace = { behind_s: behindOf(group, one), ...rates }
      return { ...one, ...pace, clears_in_s: clearsIn(one.lag, rates) }
    })
    const rates = { in_per_s: sumOf(partitions, 'in_per_s'), out_per_s: sumOf(partitions, 'out_per_s') }
    const waits = partitions.map(({ behind_s }) => behind_s ?? 0)
    return {
      ...group,
      ...rates,
      behind_s: partitions.some(({ behind_s }) => behind_s !== null) ? Math.max(...waits) : null,
      clears_in_s: first ? worstOf(partitions) : fromCurve(samplesOf(group.group, 2) ?? [], group.lag),
      partitions,
    }
  }

  return async ({ groups, ...read }: LagResult): Promise<LookedLag> => {
    const readings = groups.map(refreshed).filter((one) => one !== undefined)
    // One that takes longer serves the next look.
    await withTimeout(Promise.all(readings), oldestWithinMs, () => new Error('late')).catch(() => {})
    const ids = new Set(groups.map(({ group_id }) => group_id))
    for (const known of [samples, oldest]) for (const id of known.keys()) if (!ids.has(id)) known.delete(id)
    return { ...read, groups: groups.map(looked) }
  }
}

type Rates = Pick<Pace, 'in_per_s' | 'out_per_s'>

function ratesOf(before: { position: number; end: number }, now: PartitionLag, seconds: number): Rates {
  // A topic that was replaced, or a group that was set back, begins again.
  const inflow = now.end - before.end
  const outflow = positionOf(now) - before.position
  if (inflow < 0 || outflow < 0) return { in_per_s: null, out_per_s: null }
  return { in_per_s: inflow / seconds, out_per_s: outflow / seconds }
}

function clearsIn(lag: number, { in_per_s, out_per_s }: Rates): number | null {
  if (lag === 0 || in_per_s === null || out_per_s === null) return null
  const pace = out_per_s - in_per_s
  return pace > 0 ? lag / pace : null
}

function sumOf(partitions: readonly LookedPartition[], rate: keyof Rates): number | null {
  let sum = 0
  for (const { [rate]: own } of partitions) {
    if (own === null) return null
    sum += own
  }
  return sum
}

/** The group is done when its last partition is. */
function worstOf(partitions: readonly LookedPartition[]): number | null {
  const waiting = partitions.filter(({ lag }) => lag > 0).map(({ clears_in_s }) => clears_in_s)
  return waiting.length === 0 || waiting.includes(null) ? null : Math.max(...waiting.map((one) => one ?? 0))
}

/** By the slope of the lag over the last minutes. */
function fromCurve(curve: readonly LagSample[], lag: number): number | null {
  const [first, last] = [curve[0], curve.at(-1)]
  if (!first || !last || lag === 0) return null
  const seconds = (Date.parse(last.at) - Date.parse(first.at)) / 1_000
  const pace = seconds >= sampleMs / 1_000 ? (first.lag - last.lag) / seconds : 0
  return pace > 0 ? lag / pace : null
}

export interface OldestUnread {
  /** The position that the group had then. */
  position: number
  /** When the record was appended, in ms since 1970. */
  atMs: number
}

/** By partition; one where nothing waits, or nothing is left of what waited, is missing. Throws AppError `log_unavailable`. */
export async function readOldestUnread(
  { engines, locations }: LagParts,
  { topic, partitions }: Pick<GroupLag, 'topic' | 'partitions'>,
  signal: AbortSignal,
): Promise<Map<number, OldestUnread>> {
  const waiting = partitions.filter(({ lag }) => lag > 0)
  const positions = new Map(waiting.map((one) => [one.partition, positionOf(one)]))
  const physicalName = locations.get(topic)?.physicalName ?? topic
  const found = await readFirst({ eventLog: engines.eventLog, topic: physicalName, positions, signal })
  return new Map(
    [...found].map(([partition, { timestamp }]) => [
      partition,
      { position: positions.get(partition)!, atMs: timestamp },
    ]),
  )
}

/** The first offset that the group has not read and that the log still holds. */
function positionOf({ committed, start }: Pick<PartitionLag, 'committed' | 'start'>): number {
  return Math.max(committed ?? start, start)
}
