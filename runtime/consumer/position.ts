/** Decides where work on a gained partition starts, or why it must not: nothing is skipped or repeated silently. */

import type { GainedPartition } from '#engines/event-log/port.ts'
import { ringIdsMax, staleAfterMs } from './limits.ts'
import { decodeMetadata, emptyState, type SavedState } from './metadata.ts'

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
    saved.finished.clear()
    saved.attempts.clear()
    saved.retriesUsed.clear()
  }
  const ageMs = nowMs - saved.progressedAtMs
  if (cleanup === 'compact' && saved.progressedAtMs > 0 && ageMs > staleAfterMs && end > position) {
    return { kind: 'stop', why: staleReason(ageMs), position }
  }
  if (saved.progressedAtMs === 0 || position === end) saved.progressedAtMs = nowMs
  const readFrom = cleanup === 'delete' ? Math.max(start, position - ringIdsMax) : position
  return { kind: 'start', position, readFrom, saved, unknownFormat: decoded === null }
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
