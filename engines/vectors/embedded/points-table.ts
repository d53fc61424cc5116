/** The SQLite table that is the truth of one collection: read by id, by row number and in order. */

import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { allRows, eachRow, firstRow } from '#lib/sqlite.ts'
import type { ExpiredPoint, LogPosition } from '../port.ts'
import { createPointsWriter, positionOf, type StoredPosition } from './points-write.ts'

export interface StoredPoint {
  n: number
  id: string
  /** JSON text. */
  payload: string
  vector: Float32Array
  embedder: string | null
  /** In ms since 1970. */
  expiresAt: number | null
}

/** As `HeldPoint`. */
export interface HeldRow {
  id: string
  position: LogPosition | undefined
  point: StoredPoint | undefined
}

export interface RowPayload {
  n: number
  /** JSON text. */
  payload: string
}

/**
 * Makes the tables of `name` (a stored name and a generation): the points, and the positions of those that were
 * deleted or have expired, which no read of points sees. A table of an earlier release gets the columns that it lacks.
 */
export function makePointsTables(writer: DatabaseSync, name: string): void {
  const p = pointsTableName(name)
  const d = deletionsTableName(name)
  writer.exec(`create table if not exists ${p} (n integer primary key, id text not null unique, epoch integer,
      position integer, embedder text, payload text not null, v blob not null);
    create table if not exists ${d} (id text primary key, epoch integer not null, position integer not null,
      deleted_at integer not null) without rowid;`)
  addColumns(writer, `p_${name}`, {
    epoch: 'integer',
    position: 'integer',
    embedder: 'text',
    expires_at: 'integer',
  })
  addColumns(writer, `d_${name}`, { expired: 'integer' })
  writer.exec(`create index if not exists "p_${name}_expiry" on ${p} (expires_at) where expires_at is not null;
    drop index if exists "d_${name}_age";
    create index if not exists "d_${name}_deleted" on ${d} (deleted_at) where expired is null;
    create index if not exists "d_${name}_expired" on ${d} (deleted_at) where expired is not null`)
}

function addColumns(writer: DatabaseSync, table: string, columns: Record<string, string>): void {
  const info = allRows<{ name: string }>(writer.prepare('select name from pragma_table_info(?)'), table)
  const there = new Set(info.map((column) => column.name))
  for (const [column, type] of Object.entries(columns)) {
    if (!there.has(column)) writer.exec(`alter table "${table}" add column ${column} ${type}`)
  }
}

export function dropPointsTables(writer: DatabaseSync, name: string): void {
  writer.exec(
    `drop table if exists ${pointsTableName(name)}; drop table if exists ${deletionsTableName(name)};`,
  )
}

export type PointsTable = ReturnType<typeof openPointsTable>

/** `writer` holds the transactions; `reader` sees only what they committed. The table must exist. */
export function openPointsTable(writer: DatabaseSync, reader: DatabaseSync, name: string) {
  const p = pointsTableName(name)
  const d = deletionsTableName(name)
  const purge = writer.prepare(`delete from ${p} where n in (select n from ${p} limit ?)`)
  const forget = writer.prepare(
    `delete from ${d} where id in (select id from ${d} where deleted_at <= ? and expired is null limit ?)`,
  )
  const purgeDeletions = writer.prepare(`delete from ${d} where id in (select id from ${d} limit ?)`)
  const held = reader.prepare(`select ${pointColumns}, epoch, position from ${p} where id = ?`)
  const gone = reader.prepare(`select epoch, position from ${d} where id = ?`)
  const expired = reader.prepare(
    `select id, epoch, position from ${d} where expired is not null order by deleted_at limit ?`,
  )
  const byEmbedder = reader.prepare(
    `select embedder, count(*) as points from ${p} where expires_at is null or expires_at > ? group by embedder`,
  )
  const due = reader.prepare(`select id, epoch, position from ${p} where expires_at <= ? limit ?`)
  const countDue = reader.prepare(`select count(*) as c from ${p} where expires_at <= ?`)
  const somePayloads = reader.prepare(`select n, payload from ${p} where expires_at <= ? limit ${testedMax}`)
  const countExpired = () => firstRow<{ c: number }>(countDue, Date.now())!.c
  return {
    ...openTableReader(reader, p),
    ...createPointsWriter(writer, p, d),
    /** Deletes up to `limit` rows without changing the indexes; false when none was left. */
    purge: (limit: number): boolean => Number(purge.run(limit).changes) > 0,
    /** The same for the positions of deleted and expired points. */
    purgeDeletions: (limit: number): boolean => Number(purgeDeletions.run(limit).changes) > 0,
    /** Forgets up to `limit` deletions made at `before` (ms since 1970) or earlier; false when none was left. */
    forgetDeletions: (before: number, limit: number): boolean =>
      Number(forget.run(before, limit).changes) > 0,
    /** Ids of which nothing is known are left out. */
    held: (ids: string[]): HeldRow[] =>
      ids.flatMap((id) => {
        const row = firstRow<Record<string, SQLInputValue> & StoredPosition>(held, id)
        const found = row ?? firstRow<StoredPosition>(gone, id)
        return found ? [{ id, position: positionOf(found), point: toPresent(row) }] : []
      }),
    /** Up to `limit` points that have expired and that no operation has written or deleted since. */
    expired(limit: number): ExpiredPoint[] {
      const removed = allRows<ExpiredRow>(expired, limit)
      const others = allRows<ExpiredRow>(due, Date.now(), limit - removed.length)
      return [...removed, ...others].map(({ id, epoch, position }) => ({
        id,
        position: { epoch, offset: position },
      }))
    },
    /** Expired points that are in the table. */
    countExpired,
    /** How many of these have payloads that match: exact for few, by a part of them for many. */
    estimateExpired(test: (payload: string) => boolean): number {
      const some = allRows<RowPayload>(somePayloads, Date.now())
      const matching = some.filter(({ payload }) => test(payload)).length
      return some.length < testedMax ? matching : Math.round((matching / some.length) * countExpired())
    },
    /** How many points each embedder made; rows of it are read, not those that lie apart. */
    embedders: (): { embedder: string | null; points: number }[] => allRows(byEmbedder, Date.now()),
  }
}

export function pointsTableName(name: string): string {
  return `"p_${name}"`
}

function deletionsTableName(name: string): string {
  return `"d_${name}"`
}

interface ExpiredRow {
  id: string
  epoch: number
  position: number
}

/** Reads at most so many payloads for an estimate. */
const testedMax = 256

const pointColumns = 'n, id, payload, v, embedder, expires_at as expiresAt'

/** The reading half; `p` is the table's own name. */
export function openTableReader(reader: DatabaseSync, p: string) {
  const columns = pointColumns
  const ofId = reader.prepare(`select ${columns} from ${p} where id = ?`)
  const ofRow = reader.prepare(`select ${columns} from ${p} where n = ?`)
  const idOfRow = reader.prepare(`select id from ${p} where n = ?`)
  const afterRow = reader.prepare(`select ${columns} from ${p} where n > ? order by n limit ?`)
  const fromId = reader.prepare(`select ${columns} from ${p} where id >= ? order by id limit ?`)
  const payloadOfRow = reader.prepare(`select n, payload from ${p} where n = ?`)
  const payloadsAfter = reader.prepare(`select n, payload from ${p} where n > ? order by n limit ?`)
  const numbers = reader.prepare(`select n from ${p} order by n limit ?`)
  // Read from the index of ids: the rows themselves lie far apart.
  const everyNumber = reader.prepare(`select json_group_array(n) as ns from ${p}`)
  const count = reader.prepare(`select count(*) as c from ${p}`)
  return {
    byIds: (ids: string[]): StoredPoint[] => ids.flatMap((id) => toPresent(ofId.get(id)) ?? []),
    byRow: (n: number): StoredPoint | undefined => toPresent(ofRow.get(n)),
    /** Rows above `n` in the order of their numbers, also those that have expired. */
    rowsAfter: (n: number, limit: number): StoredPoint[] =>
      afterRow.all(n, limit).map((row) => toPoint(row)!),
    /** Points from `id` (inclusive) in the order of ids, also those that have expired, read as they are taken: finish before the next call. */
    *fromId(id: string, limit: number): Iterable<StoredPoint> {
      for (const row of eachRow<Record<string, SQLInputValue>>(fromId, id, limit)) yield toPoint(row)!
    },
    idOfRow: (n: number): string | undefined => firstRow<{ id: string }>(idOfRow, n)?.id,
    /** Without the vectors, which lie apart from the payload and take longer to read. */
    payloadsOf: (ns: readonly number[]): RowPayload[] =>
      ns.flatMap((n) => firstRow<RowPayload>(payloadOfRow, n) ?? []),
    payloadsAfter: (n: number, limit: number): RowPayload[] => allRows(payloadsAfter, n, limit),
    /** All row numbers, at most `limit`. */
    rowNumbers: (limit: number): number[] => allRows<{ n: number }>(numbers, limit).map((row) => row.n),
    everyRowNumber: (): number[] => JSON.parse(firstRow<{ ns: string }>(everyNumber)!.ns) as number[],
    countAll: (): number => firstRow<{ c: number }>(count)!.c,
  }
}

/** False from its expiry on. */
export function isPresent({ expiresAt }: StoredPoint): boolean {
  return expiresAt === null || expiresAt > Date.now()
}

function toPresent(row: Record<string, SQLInputValue> | undefined): StoredPoint | undefined {
  const point = toPoint(row)
  return point && isPresent(point) ? point : undefined
}

function toPoint(row: Record<string, SQLInputValue> | undefined): StoredPoint | undefined {
  if (!row) return undefined
  const blob = row.v as Uint8Array
  const aligned = blob.byteOffset % Float32Array.BYTES_PER_ELEMENT === 0 ? blob : blob.slice()
  const vector = new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4)
  const { n, id, payload, embedder, expiresAt } = row as Record<string, SQLInputValue> &
    Omit<StoredPoint, 'vector'>
  return { n, id, payload, vector, embedder, expiresAt }
}
