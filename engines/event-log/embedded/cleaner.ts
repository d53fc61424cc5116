/**
 * Removes what the log need not keep: expired records, records below the start, and all but the last record of a
 * key.
 */

import type { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import type { Clock } from './clock.ts'
import { compactTable } from './compaction.ts'
import type { Table, Writer } from './writer.ts'

interface Cleaner {
  /** One round over all partitions. Rounds never overlap. */
  sweep(): Promise<void>
  /** Compacts all but the newest record of each partition of the topic, and removes tombstones whose time is over. */
  compactNow(topic: string): Promise<void>
}

/** `trimmed` is called with a partition's new start. */
export function createCleaner(
  db: DatabaseSync,
  writer: Writer,
  { clock, trimmed }: { clock: Clock; trimmed(id: number, start: number): void },
): Cleaner {
  let running: Promise<void> = Promise.resolve()

  async function clean(table: Table): Promise<void> {
    // Most partitions of a small platform: nothing was ever written.
    if (table.next === 0) return
    if (table.topic.cleanup === 'delete' && table.topic.retentionMs !== null) {
      const start = await table.records.findUnexpired(table.start, clock() - table.topic.retentionMs)
      if (start > table.start) trimmed(table.id, writer.trim(table.id, start))
    }
    await purge(writer, table)
    if (table.topic.cleanup === 'compact') await compactTable(db, table, { alive, clock }, 'when worthwhile')
  }
  const alive = (table: Table) => writer.tables.get(table.id) === table

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
          if (table.topic.name === topic && alive(table))
            await compactTable(db, table, { alive, clock }, 'now')
        }
      }),
  }
}

/** Removes what is below the start, slice by slice. */
async function purge(writer: Writer, table: Table): Promise<void> {
  while (writer.tables.get(table.id) === table && table.records.purge(table.start)) await setImmediate()
}
