/** Decides where work on a gained partition starts, or why it must not: nothing is skipped or repeated silently. */

import type { GainedPartition, StoredRecord } from '#engines/event-log/port.ts'
import { ringIdsMax, staleAfterMs } from './limits.ts'
import { decodeMetadata, emptyState, type SavedState } from './metadata.ts'

/** The group made no progress for so long that deletions may be gone, from this offset on. */
export interface Doubt {
  offset: number
  ageMs: number
}

export type Start =
  | {
      kind: 'start'
      /** The first offset to work on. */
      position: number
      /** The first offset to read: lower where event ids are read back. */
      readFrom: number
      saved: SavedState
      /** The commit's metadata has a format of another version: only its position counts. */
      unknownFormat: boolean
      doubt: Doubt | null
    }
  | { kind: 'stop'; why: string; position: number }

/** `handedOver` is the position that the worker keeps itself; it wins. */
export function decideStart(
  gained: GainedPartition,
  handedOver: number | undefined,
  cleanup: 'delete' | 'compact',
  nowMs: number,
): Start {
  const { committed, start, end } = gained
  const position = handedOver ?? committed?.offset
  if (position === undefined) return { kind: 'stop', why: 'no committed position', position: start }
  // Compaction never removes what a position could need: a start below it is no loss there.
  if (position > end || (position < start && cleanup === 'delete')) {
    return { kind: 'stop', why: misplacedReason({ position, start, end }), position }
  }
  const decoded = committed ? decodeMetadata(committed.metadata, committed.offset) : emptyState()
  const saved = decoded ?? { ...emptyState(), released: false }
  if (handedOver !== undefined && handedOver !== committed?.offset) {
    saved.settled.clear()
    saved.attempts.clear()
    saved.retriesUsed.clear()
  }
  // What lies below the commit was seen by the group, also where the worker's own position is older.
  const unseen = Math.max(position, committed?.offset ?? position)
  if (saved.progressedAtMs === 0 || unseen >= end) saved.progressedAtMs = nowMs
  const ageMs = nowMs - saved.progressedAtMs
  const doubt = cleanup === 'compact' && ageMs > staleAfterMs ? { offset: unseen, ageMs } : null
  const readFrom = cleanup === 'delete' ? Math.max(start, position - ringIdsMax) : position
  return { kind: 'start', position, readFrom, saved, unknownFormat: decoded === null, doubt }
}

/**
 * `next` is the first record of what the group has not seen. Where it is young and nothing is missing before it, all
 * that follows is younger: no deletion of it can be gone, the group made no progress only because nothing happened.
 */
export function missedDeletions(doubt: Doubt, next: StoredRecord, nowMs: number): boolean {
  return next.offset > doubt.offset || nowMs - next.timestamp > staleAfterMs
}

export function misplacedReason({
  position,
  start,
  end,
}: {
  position: number
  start: number
  end: number
}): string {
  return `position ${position} lies outside of the log (${start} to ${end}): records may be lost; set the position of the group`
}

export function staleReason(ageMs: number): string {
  const days = Math.floor(ageMs / 86_400_000)
  return `nothing was committed for ${days} days while the partition grew: deletions may be missed; rebuild what the group derives`
}
