/**
 * Builds a collection's index from scratch, with all of its graph, from the points in SQLite. It runs as a process
 * of its own.
 *
 * Building the graph takes a core for many seconds, cannot be interrupted, and takes its whole process down when
 * that ends meanwhile; this process may be killed at any time. The caller applies afterwards what changed in the
 * meantime.
 */

import { DatabaseSync } from 'node:sqlite'
import { lowerPriority } from '#lib/giving-way.ts'
import { createZvecIndex, loadZvec, type MergeOrder } from './neighbour-index.ts'
import { openTableReader } from './points-table.ts'
import { tokensOf } from './points-write.ts'

const rowsPerBatch = 256

const order = JSON.parse(process.argv[2]!) as MergeOrder
// Its input ends when its parent does: then nothing can use what it builds.
process.stdin.on('end', () => process.kill(process.pid, 'SIGKILL')).resume()
// Searches and writes go first, without starving this.
lowerPriority('process')
const { zvec, cause } = await loadZvec(order.nativeModule)
if (!zvec) throw cause
const reader = openTableReader(
  new DatabaseSync(order.database, { readOnly: true, timeout: 5_000 }),
  order.table,
)
const index = createZvecIndex(zvec, order.path, order.dimension)
for (let after = 0; ; ) {
  const rows = reader.rowsAfter(after, rowsPerBatch)
  if (rows.length === 0) break
  index.upsert(rows.map((row) => ({ ...row, tokens: tokensOf(row.payload) })))
  after = rows.at(-1)!.n
}
await index.optimize()
index.close()
process.exit(0)
