/** Where reading begins in partitions that are added while the group runs. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { readLocation } from '#runtime/publish/added-partitions.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'

type Gained = { partition: number; committed: number | null }[]
type Positions = Map<number, number> | undefined

/** The log may assign a partition before its row exists: nothing can have been written to it by then. */
export function positionsOfAdded(
  relational: SqlExecutor,
  handOver: (gained: Gained) => Promise<Positions>,
): (gained: Gained) => Promise<Positions> {
  return async (gained) => {
    if (gained.every(({ committed }) => committed !== null)) {
      // Deletes rows that are no longer needed: nothing waits for the database.
      handOver(gained).catch(() => {})
      return undefined
    }
    // Read first: a partition that is counted here has its row by the time that rows are read.
    const { partitions } = await readLocation(relational, webhooksDeliveries)
    const positions = new Map(await handOver(gained))
    for (const { partition, committed } of gained) {
      if (committed === null && partition >= partitions) positions.set(partition, 0)
    }
    return positions
  }
}
