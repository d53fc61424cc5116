/** What the writing thread does: appends, positions and topics in, committed rows out. */

import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { inTransaction } from '#lib/sqlite-transaction.ts'
import type { TopicSpec } from '../port.ts'
import { createRecordsTable, recordsTable } from './layout.ts'
import { createCursor } from './record-block.ts'

/** One partition, as the threads speak of it. */
export interface PlaceSnapshot {
  id: number
  partition: number
  start: number
  end: number
}

export interface TopicSnapshot {
  spec: TopicSpec
  places: PlaceSnapshot[]
}

export interface PositionRow {
  group: string
  topic: string
  partition: number
  offset: number
  metadata: string
}

/** Everything that one transaction writes. The block holds the records of all appends, one behind the other. */
export interface WriteBatch {
  appends: { place: number; records: number }[]
  block: ArrayBuffer
  positions: PositionRow[]
}

/** A partition as the writer keeps it in memory. */
export interface Table {
  id: number
  topic: TopicSpec
  start: number
  next: number
  insert: StatementSync
}

export type Writer = ReturnType<typeof createWriter>

export function createWriter(db: DatabaseSync) {
  const tables = new Map<number, Table>()
  const writePosition = db.prepare(
    `insert into positions values (?, ?, ?, ?, ?, ?) on conflict do update
     set position = excluded.position, metadata = excluded.metadata, at = excluded.at`,
  )

  function addTable(spec: TopicSpec, row: { id: number; start: number; floor: number }): Table {
    const name = recordsTable(row.id)
    const last = db.prepare(`select max(o) as o from ${name}`).get()?.o as number | null
    const table = {
      id: row.id,
      topic: spec,
      start: row.start,
      next: Math.max(row.floor, last === null ? 0 : last + 1),
      insert: db.prepare(`insert into ${name} (o, ts, key, headers, value) values (?, ?, ?, ?, ?)`),
    }
    tables.set(row.id, table)
    return table
  }

  return {
    tables,
    load: (): { topics: TopicSnapshot[]; positions: PositionRow[] } => ({
      topics: readTopics(db).map((spec) => ({ spec, places: readPlaces(db, spec, addTable) })),
      positions: db
        .prepare(
          'select group_name as "group", topic, partition, position as offset, metadata from positions',
        )
        .all() as unknown as PositionRow[],
    }),

    /** Offsets of the first record of each append; -1 for a partition that is gone. */
    write(batch: WriteBatch): number[] {
      const records = batch.appends.reduce((sum, one) => sum + one.records, 0)
      const cursor = createCursor(batch.block, records)
      const nexts = new Map<Table, number>()
      const firsts = inTransaction(db, () => {
        const at = Date.now()
        for (const { group, topic, partition, offset, metadata } of batch.positions) {
          writePosition.run(group, topic, partition, offset, metadata, at)
        }
        return batch.appends.map((append) => {
          const table = tables.get(append.place)
          if (!table) {
            cursor.skip(append.records)
            return -1
          }
          const first = nexts.get(table) ?? table.next
          for (let i = 0; i < append.records; i++) {
            const { timestamp, key, value, headers } = cursor.next()
            table.insert.run(first + i, timestamp, key, headers, value)
          }
          nexts.set(table, first + append.records)
          return first
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
        return addPartitionRows(db, spec.name, 0, spec.partitions)
      })
      if (!made) return null
      return { spec, places: made.map(({ id, partition }) => snapshot(addTable(spec, fresh(id)), partition)) }
    },

    addPartitions(spec: TopicSpec, from: number, total: number): PlaceSnapshot[] {
      const made = inTransaction(db, () => addPartitionRows(db, spec.name, from, total))
      return made.map(({ id, partition }) => snapshot(addTable(spec, fresh(id)), partition))
    },

    deleteTopic(name: string): void {
      const gone = [...tables.values()].filter((table) => table.topic.name === name)
      inTransaction(db, () => {
        for (const { id } of gone) db.exec(`drop table ${recordsTable(id)}`)
        db.prepare('delete from partitions where topic = ?').run(name)
        db.prepare('delete from positions where topic = ?').run(name)
        db.prepare('delete from topics where name = ?').run(name)
      })
      for (const { id } of gone) tables.delete(id)
    },

    /** Sets the first offset that is kept; the rows below it are removed by the cleaner. Returns the start now. */
    trim(place: number, before: number): number {
      const table = tables.get(place)
      if (!table) return before
      if (before > table.start) {
        inTransaction(db, () =>
          db
            .prepare('update partitions set start = ?, next_floor = ? where id = ?')
            .run(before, table.next, place),
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

const fresh = (id: number) => ({ id, start: 0, floor: 0 })

const snapshot = (table: Table, partition: number): PlaceSnapshot => ({
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

function readPlaces(
  db: DatabaseSync,
  spec: TopicSpec,
  add: (spec: TopicSpec, row: { id: number; start: number; floor: number }) => Table,
): PlaceSnapshot[] {
  return db
    .prepare(
      'select id, partition, start, next_floor as floor from partitions where topic = ? order by partition',
    )
    .all(spec.name)
    .map((row) => {
      const place = row as { id: number; partition: number; start: number; floor: number }
      return snapshot(add(spec, place), place.partition)
    })
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
  topic: string,
  from: number,
  total: number,
): { id: number; partition: number }[] {
  const insert = db.prepare('insert into partitions (topic, partition) values (?, ?)')
  const made: { id: number; partition: number }[] = []
  for (let partition = from; partition < total; partition++) {
    const id = Number(insert.run(topic, partition).lastInsertRowid)
    createRecordsTable(db, id)
    made.push({ id, partition })
  }
  return made
}
