/** What the log may forget: expired records, records below the start, all but the last record of a key. */

import type { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { inTransaction } from '#lib/sqlite-transaction.ts'
import { type CompactionLimits, compactTable } from './compaction.ts'
import { recordsTable } from './layout.ts'
import type { Table, Writer } from './writer.ts'

/** Rows removed in one transaction: appends wait for no more than this. */
const rowsPerSlice = 200

export interface Cleaner {
  /** One round over all partitions. Rounds never overlap. */
  sweep(): Promise<void>
  /** Compacts all but the newest record of each partition of the topic, and removes tombstones whose time is over. */
  compactNow(topic: string): Promise<void>
}

/** `trimmed` hears of a partition's new start. */
export function createCleaner(
  db: DatabaseSync,
  writer: Writer,
  trimmed: (place: number, start: number) => void,
): Cleaner {
  let running: Promise<void> = Promise.resolve()

  async function clean(table: Table): Promise<void> {
    if (table.topic.cleanup === 'delete' && table.topic.retentionMs !== null) {
      const start = await findUnexpired(db, table, Date.now() - table.topic.retentionMs)
      if (start > table.start) trimmed(table.id, writer.trim(table.id, start))
    }
    await purge(db, writer, table)
    if (table.topic.cleanup === 'compact') await compactTable(db, table, alive, 'when worthwhile')
  }
  const alive: CompactionLimits['alive'] = (table) => writer.tables.get(table.id) === table

  function afterOthers(work: () => Promise<void>): Promise<void> {
    const mine = running.then(work)
    running = mine.catch(() => {})
    return mine
  }
  return {
    sweep: () =>
      afterOthers(async () => {
        for (const table of [...writer.tables.values()]) if (alive(table)) await clean(table)
      }),
    compactNow: (topic) =>
      afterOthers(async () => {
        for (const table of [...writer.tables.values()]) {
          if (table.topic.name === topic && alive(table)) await compactTable(db, table, alive, 'now')
        }
      }),
  }
}

/** The first offset whose record is not older than `cutoff`; the end when all are. */
async function findUnexpired(db: DatabaseSync, table: Table, cutoff: number): Promise<number> {
  const select = db.prepare(
    `select o, ts from ${recordsTable(table.id)} where o >= ? order by o limit ${rowsPerSlice * 5}`,
  )
  let at = table.start
  for (;;) {
    const rows = select.all(at) as { o: number; ts: number }[]
    const kept = rows.find((row) => row.ts >= cutoff)
    if (kept) return kept.o
    if (rows.length === 0) return at
    at = rows.at(-1)!.o + 1
    await setImmediate()
  }
}

/** Removes the rows below the start, slice by slice. */
async function purge(db: DatabaseSync, writer: Writer, table: Table): Promise<void> {
  const name = recordsTable(table.id)
  while (writer.tables.get(table.id) === table) {
    const lowest = db.prepare(`select min(o) as o from ${name}`).get()?.o as number | null
    if (lowest === null || lowest >= table.start) return
    inTransaction(db, () =>
      db
        .prepare(
          `delete from ${name} where o in (select o from ${name} where o < ? order by o limit ${rowsPerSlice})`,
        )
        .run(table.start),
    )
    await setImmediate()
  }
}
