/** Ids of records: UUIDv7, so that they sort by time. */

import { randomFillSync } from 'node:crypto'
import { v7 as uuidv7 } from 'uuid'

const pool = Buffer.alloc(16 * 512)
let used = pool.length

/** A new id. Its random bits come from a pool: one system call serves 512 records. */
export function newEventId(): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += 16
  return uuidv7({ random: pool.subarray(used - 16, used) })
}
