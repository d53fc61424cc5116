/**
 * Removes what the log need not keep: expired records, records below the start, and all but the last record of a key, which is
 * kept under its own offset.
 */

import type { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { allRows, firstRow, inTransaction } from '#lib/sqlite.ts'
import type { Clock } from './record-block.ts'
import { nameOf } from './record-tables.ts'
import type { Table, Writer } from './writer.ts'

/** `trimmed` is called with a partition's new start. */
export function createCleaner(
  db: DatabaseSync,
  writer: Writer,
  { clock, trimmed }: { clock: Clock; trimmed(id: number, start: number): void },
) {
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
    /** One round over all partitions. Rounds never overlap. */
    sweep: (): Promise<void> =>
      afterOthers(async () => {
        for (const table of [...writer.tables.values()]) if (alive(table)) await clean(table)
      }),
    /** Compacts all but the newest record of each partition of the topic, and removes tombstones whose time is over. */
    compactNow: (topic: string): Promise<void> =>
      afterOthers(async () => {
        for (const table of [...writer.tables.values()]) {
          if (table.topic.name === topic && alive(table))
            await compactTable(db, table, { alive, clock }, 'now')
        }
      }),
  }
}

/** Removes records below the start, slice by slice. */
async function purge(writer: Writer, table: Table): Promise<void> {
  while (writer.tables.get(table.id) === table && table.records.purge(table.start)) await setImmediate()
}

/** Keys that one round remembers. */
const keysMax = 100_000
/** Rows looked at before other work of the thread gets its turn. */
const rowsPerLook = 1_000
/** Removed in one transaction at most: appends wait for no more than this. */
const sliceRowsMax = 200
const sliceBytesMax = 1_048_576
/** A round starts when at least this many records, and half as many as are already clean, are new. */
const dirtyRecordsMin = 1_000

interface CompactionParts {
  clock: Clock
  /** False when the partition was deleted meanwhile. */
  alive(table: Table): boolean
}

interface Candidate {
  o: number
  ts: number
  key: Uint8Array | null
  /** Size of the value; null for a tombstone. */
  bytes: number | null
}

interface State {
  compacted_to: number
  clean_rows: number
  tombstone_due: number | null
}

/** Compacts up to the head: the newest record, and (`when worthwhile`) all that are younger than a segment. */
export async function compactTable(
  db: DatabaseSync,
  table: Table,
  { alive, clock }: CompactionParts,
  when: 'when worthwhile' | 'now',
): Promise<void> {
  const read = db.prepare('select compacted_to, clean_rows, tombstone_due from partitions where id = ?')
  for (;;) {
    const state = firstRow<State>(read, table.id)
    if (!state || !alive(table) || table.next <= table.start) return
    // Before the head is looked for: it is below the end.
    if (when === 'when worthwhile' && !isWorthwhile(table.next, state, clock())) return
    const head = when === 'now' ? table.next - 1 : findHead(db, table, clock() - table.topic.segmentMs)
    if (when === 'when worthwhile' && !isWorthwhile(head, state, clock())) return
    const from = Math.max(state.compacted_to, table.start)
    const { latest, to } = await lookAtNewKeys(db, table, from, head)
    if (!(await removeSuperseded(db, table, { alive, clock }, latest, to))) return
    if (to >= head) return
  }
}

const enough = (state: State) => Math.max(dirtyRecordsMin, state.clean_rows / 2)
const due = (state: State, now: number) => state.tombstone_due !== null && state.tombstone_due <= now
const isWorthwhile = (end: number, state: State, now: number) =>
  due(state, now) || end - state.compacted_to >= enough(state)

/** First offset of the head. Times rise with offsets, so it is found by halving. */
function findHead(db: DatabaseSync, table: Table, youngerThan: number): number {
  const at = db.prepare(`select ts from ${nameOf(table.id)} where o >= ? order by o limit 1`)
  let low = table.start
  let high = table.next - 1
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if ((at.get(middle)?.ts as number) < youngerThan) low = middle + 1
    else high = middle
  }
  return low
}

/** The last offset of each key in [from, head), or as far as the memory for keys reaches. */
async function lookAtNewKeys(
  db: DatabaseSync,
  table: Table,
  from: number,
  head: number,
): Promise<{ latest: Map<string, number>; to: number }> {
  const select = db.prepare(
    `select o, key from ${nameOf(table.id)} where o >= ? and o < ? order by o limit ${rowsPerLook}`,
  )
  const latest = new Map<string, number>()
  let at = from
  while (latest.size < keysMax) {
    const rows = allRows<{ o: number; key: Uint8Array | null }>(select, at, head)
    for (const { o, key } of rows) if (key) latest.set(textOf(key), o)
    if (rows.length < rowsPerLook) return { latest, to: head }
    at = rows.at(-1)!.o + 1
    await setImmediate()
  }
  return { latest, to: at }
}

/** Walks over all rows below `to`, removes what a later record of its key replaced, and old tombstones. */
async function removeSuperseded(
  db: DatabaseSync,
  table: Table,
  { alive, clock }: CompactionParts,
  latest: Map<string, number>,
  to: number,
): Promise<boolean> {
  const name = nameOf(table.id)
  const select = db.prepare(
    `select o, ts, key, length(value) as bytes from ${name} where o >= ? and o < ? order by o limit ${rowsPerLook}`,
  )
  const remove = db.prepare(`delete from ${name} where o = ?`)
  const tombstonesBefore = clock() - table.topic.tombstoneRetentionMs
  let at = table.start
  let kept = 0
  let tombstoneDue: number | null = null
  for (;;) {
    const rows = allRows<Candidate>(select, at, to)
    const gone: Candidate[] = []
    for (const row of rows) {
      const { o, ts, key, bytes } = row
      const replaced = key !== null && (latest.get(textOf(key)) ?? o) > o
      if (replaced || (bytes === null && ts <= tombstonesBefore)) {
        gone.push(row)
        continue
      }
      kept++
      if (bytes === null)
        tombstoneDue = Math.min(tombstoneDue ?? Infinity, ts + table.topic.tombstoneRetentionMs)
    }
    if (!(await removeRows(db, () => alive(table), remove, gone))) return false
    if (rows.length < rowsPerLook) break
    at = rows.at(-1)!.o + 1
  }
  inTransaction(db, () =>
    db
      .prepare('update partitions set compacted_to = ?, clean_rows = ?, tombstone_due = ? where id = ?')
      .run(to, kept, tombstoneDue, table.id),
  )
  return true
}

async function removeRows(
  db: DatabaseSync,
  alive: () => boolean,
  remove: { run(o: number): unknown },
  gone: Candidate[],
): Promise<boolean> {
  for (let from = 0; from < gone.length; ) {
    if (!alive()) return false
    const to = endOfSlice(gone, from)
    inTransaction(db, () => {
      for (const { o } of gone.slice(from, to)) remove.run(o)
    })
    from = to
    await setImmediate()
  }
  await setImmediate()
  return alive()
}

/** At least one row is in a slice. */
function endOfSlice(gone: Candidate[], from: number): number {
  let bytes = 0
  for (let to = from; to < gone.length; to++) {
    bytes += gone[to]!.bytes ?? 0
    if (to > from && (bytes > sliceBytesMax || to - from >= sliceRowsMax)) return to
  }
  return gone.length
}

/** Bytes as text of the same length: keys need not be UTF-8. */
const textOf = (key: Uint8Array) => Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1')
