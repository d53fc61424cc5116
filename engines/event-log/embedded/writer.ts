/** Writes appends, positions and topics to the file in durable transactions; runs in the writing thread. */

import type { DatabaseSync } from 'node:sqlite'
import { allRows, inTransaction } from '#lib/sqlite.ts'
import type { CommittedPosition, GroupTopic, PartitionRange, TopicSpec } from '../port.ts'
import { createCursor } from './record-block.ts'
import { createRecordTable, type Kind, nameOf, openRecordTable, type RecordTable } from './record-tables.ts'

/** One partition as the threads describe it to each other. */
export type PartitionSnapshot = PartitionRange & { id: number }

export interface TopicSnapshot {
  spec: TopicSpec
  partitions: PartitionSnapshot[]
}

export type PositionRow = GroupTopic & CommittedPosition

interface Appended {
  partitionId: number
  records: number
  /** Who appends, as `takeOver` numbers them; `nobody` without a writer name. */
  holder: number
}

/** What a write answers in the place of a first offset. */
export const partitionGone = -1
export const holderFenced = -2

/** Everything that one transaction writes. The block holds the records of all appends, one behind the other. */
export interface WriteBatch {
  appends: Appended[]
  block: ArrayBuffer
  positions: PositionRow[]
}

/** `firsts` are offsets of the first record of each append, or `partitionGone` or `holderFenced`. */
export interface Written {
  firsts: number[]
  /** That of the batch. */
  block: ArrayBuffer
}

/** A partition as the writer keeps it in memory. */
export interface Table {
  id: number
  topic: TopicSpec
  start: number
  next: number
  records: RecordTable
}

export type Writer = ReturnType<typeof createWriter>

export function createWriter(db: DatabaseSync) {
  const tables = new Map<number, Table>()
  const holders = createHolders()
  /** Time of the newest record that was in the file when it was opened; 0 without any. */
  let newestAt = 0
  const writePosition = db.prepare(
    `insert into positions values (?, ?, ?, ?, ?, ?) on conflict do update
     set position = excluded.position, metadata = excluded.metadata, at = excluded.at`,
  )

  function addTable(spec: TopicSpec, { id, start, floor, kind }: PartitionRow): Table {
    const records = openRecordTable(db, id, kind)
    const last = records.last()
    newestAt = Math.max(newestAt, last?.timestamp ?? 0)
    const table = { id, topic: spec, start, next: Math.max(floor, (last?.offset ?? -1) + 1), records }
    tables.set(id, table)
    return table
  }

  return {
    tables,
    takeOver: holders.takeOver,
    load: (): { topics: TopicSnapshot[]; positions: PositionRow[]; newestAt: number } => ({
      topics: readTopics(db).map((spec) => ({ spec, partitions: readPartitions(db, spec, addTable) })),
      newestAt,
      positions: allRows<PositionRow>(
        db.prepare(
          'select group_name as "group", topic, partition, position as offset, metadata from positions',
        ),
      ),
    }),

    /** Offsets of the first record of each append, or `partitionGone` or `holderFenced`. */
    write(batch: WriteBatch): number[] {
      const records = batch.appends.reduce((sum, one) => sum + one.records, 0)
      const cursor = createCursor(batch.block, records)
      const nexts = new Map<Table, number>()
      const firsts = inTransaction(db, () => {
        const at = Date.now()
        for (const { group, topic, partition, offset, metadata } of batch.positions) {
          writePosition.run(group, topic, partition, offset, metadata, at)
        }
        return neighbours(batch.appends).flatMap((appends) => {
          const { partitionId, holder } = appends[0]!
          const table = tables.get(partitionId)
          const count = appends.reduce((sum, one) => sum + one.records, 0)
          if (!table || !holders.isCurrent(holder)) {
            cursor.skip(count)
            return appends.map(() => (table ? holderFenced : partitionGone))
          }
          let first = nexts.get(table) ?? table.next
          table.records.insert(cursor, count, first)
          nexts.set(table, first + count)
          return appends.map(({ records }) => {
            first += records
            return first - records
          })
        })
      })
      for (const [table, next] of nexts) table.next = next
      return firsts
    },

    createTopic(spec: TopicSpec): TopicSnapshot | null {
      const made = inTransaction(db, () => {
        const known = db.prepare('select 1 from topics where name = ?').get(spec.name)
        if (known) return null
        insertTopic(db, spec)
        return addPartitionRows(db, spec, 0, spec.partitions)
      })
      if (!made) return null
      return {
        spec,
        partitions: made.map(({ id, partition }) => snapshot(addTable(spec, fresh(id, spec)), partition)),
      }
    },

    addPartitions(spec: TopicSpec, from: number, total: number): PartitionSnapshot[] {
      const made = inTransaction(db, () => addPartitionRows(db, spec, from, total))
      return made.map(({ id, partition }) => snapshot(addTable(spec, fresh(id, spec)), partition))
    },

    deleteTopic(name: string): void {
      const gone = [...tables.values()].filter((table) => table.topic.name === name)
      inTransaction(db, () => {
        for (const { id } of gone) db.exec(`drop table ${nameOf(id)}`)
        db.prepare('delete from partitions where topic = ?').run(name)
        db.prepare('delete from positions where topic = ?').run(name)
        db.prepare('delete from topics where name = ?').run(name)
      })
      for (const { id } of gone) tables.delete(id)
    },

    /** Sets the first offset that is kept; the rows below it are removed by the cleaner. Returns the start now. */
    trim(id: number, before: number): number {
      const table = tables.get(id)
      if (!table) return before
      if (before > table.start) {
        inTransaction(db, () =>
          db
            .prepare('update partitions set start = ?, next_floor = ? where id = ?')
            .run(before, table.next, id),
        )
        table.start = before
      }
      return table.start
    },

    deleteGroup(group: string): void {
      inTransaction(db, () => db.prepare('delete from positions where group_name = ?').run(group))
    },
  }
}

/** Appends of one writer to one partition that follow each other are written as one. */
function neighbours(appends: Appended[]): Appended[][] {
  const runs: Appended[][] = []
  for (const one of appends) {
    const run = runs.at(-1)
    if (run?.[0]?.partitionId === one.partitionId && run[0].holder === one.holder) run.push(one)
    else runs.push([one])
  }
  return runs
}

/** A row of `partitions`. */
interface PartitionRow {
  id: number
  start: number
  floor: number
  kind: Kind
}

/** Compaction picks among records: there each has a row of its own. */
const kindOf = (spec: TopicSpec): Kind => (spec.cleanup === 'compact' ? 'rows' : 'batches')

const fresh = (id: number, spec: TopicSpec): PartitionRow => ({ id, start: 0, floor: 0, kind: kindOf(spec) })

const snapshot = (table: Table, partition: number): PartitionSnapshot => ({
  id: table.id,
  partition,
  start: table.start,
  end: table.next,
})

function readTopics(db: DatabaseSync): TopicSpec[] {
  const partitions = db.prepare('select count(*) as n from partitions where topic = ?')
  return db
    .prepare('select * from topics order by name')
    .all()
    .map((row) => ({
      name: row.name as string,
      partitions: partitions.get(row.name as string)?.n as number,
      cleanup: row.cleanup as 'delete' | 'compact',
      retentionMs: row.retention_ms as number | null,
      tombstoneRetentionMs: row.tombstone_retention_ms as number,
      segmentBytes: row.segment_bytes as number,
      segmentMs: row.segment_ms as number,
      recordBytesMax: row.record_bytes_max as number,
    }))
}

function readPartitions(
  db: DatabaseSync,
  spec: TopicSpec,
  add: (spec: TopicSpec, row: PartitionRow) => Table,
): PartitionSnapshot[] {
  const select = db.prepare(
    'select id, partition, start, next_floor as floor, kind from partitions where topic = ? order by partition',
  )
  const rows = allRows<PartitionRow & { partition: number }>(select, spec.name)
  return rows.map((row) => snapshot(add(spec, row), row.partition))
}

function insertTopic(db: DatabaseSync, spec: TopicSpec): void {
  db.prepare('insert into topics values (?, ?, ?, ?, ?, ?, ?)').run(
    spec.name,
    spec.cleanup,
    spec.retentionMs,
    spec.tombstoneRetentionMs,
    spec.segmentBytes,
    spec.segmentMs,
    spec.recordBytesMax,
  )
}

function addPartitionRows(
  db: DatabaseSync,
  spec: TopicSpec,
  from: number,
  total: number,
): { id: number; partition: number }[] {
  const insert = db.prepare('insert into partitions (topic, partition, kind) values (?, ?, ?)')
  const kind = kindOf(spec)
  const made: { id: number; partition: number }[] = []
  for (let partition = from; partition < total; partition++) {
    const id = Number(insert.run(spec.name, partition, kind).lastInsertRowid)
    createRecordTable(db, id, kind)
    made.push({ id, partition })
  }
  return made
}

/** For appends of no writer name; everyone may use it. */
export const nobody = 0

function createHolders() {
  const byName = new Map<string, number>()
  const current = new Set([nobody])
  let last = nobody
  return {
    /** Gives the name to a new holder and returns its number; the earlier one has it no more. */
    takeOver(name: string): number {
      current.delete(byName.get(name) ?? -1)
      byName.set(name, ++last)
      current.add(last)
      return last
    },
    isCurrent: (holder: number): boolean => current.has(holder),
  }
}
