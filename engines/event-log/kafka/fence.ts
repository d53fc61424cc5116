/**
 * The record that the driver itself appends where a batch was given up and nothing followed: once it is in the log, the
 * bytes of that batch are refused. It says nothing, and readers skip it.
 */

import type { NewRecord } from '../port.ts'

/** Marks a fence. Downstream readers that do not use this driver skip records with it. */
export const fenceHeader = 'flotilla-fence'
/** All fences of a partition have this key, so that compaction leaves at most one. */
export const fenceKey = 'flotilla.fence'

/** A null value: on a compacted topic a tombstone. */
export function fenceRecord(): NewRecord {
  return { key: Buffer.from(fenceKey), value: null, headers: { [fenceHeader]: '1' } }
}
