/** Where a sink puts records, and what it keeps with them so that none is missing and none is there twice. */

import type { Closeable } from '#lib/resource.ts'
import type { ShownRecord } from '#runtime/follow/show-record.ts'

/** A record with the position behind it. */
export interface PositionedRecord extends ShownRecord {
  position: string
}

export interface SinkTarget extends Closeable {
  /** Behind the last record that it holds; null while it holds none. */
  position(): Promise<string | null>
  /**
   * Keeps the records and the position behind the last of them together: both, or neither. Throws AppError `fenced` when
   * another sink has taken its place.
   */
  write(records: readonly PositionedRecord[]): Promise<void>
  /** Called when all that was in the topic at the start is written. `epoch`: of the topic. */
  caughtUp?(epoch: number): Promise<void>
}
