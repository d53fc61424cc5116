/** The SQLite table that is the truth of one collection: written by id, read by id, by row number and in order. */

import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { allRows, eachRow, firstRow } from '#lib/sqlite.ts'
import { isNewer } from '../collections.ts'
import { payloadTokens } from '../filter.ts'
import type { LogPosition, Payload } from '../port.ts'

export interface StoredPoint {
  n: number
  id: string
  /** JSON text. */
  payload: string
  vector: Float32Array
  embedder: string | null
}

export interface RowPayload {
  n: number
  /** JSON text. */
  payload: string
}

/** `payload` null: a delete. */
export interface Write {
  id: string
  position: LogPosition
  payload: string | null
  vector: Float32Array | null
  embedder: string | null
}

/** What a write changed, as the indexes must follow it: `vector` null for a delete. */
export interface Change {
  n: number
  vector: Float32Array | null
  /** JSON text; null for a delete. */
  payload: string | null
  before: string[]
  tokens: string[]
}

/**
 * Makes the tables of `name` (a stored name and a generation): the points, and the positions of those that were
 * deleted, which no read ever sees. A table of an earlier release gets the columns that it lacks.
 */
export function makePointsTables(writer: DatabaseSync, name: string): void {
  const p = pointsTableName(name)
  const d = deletionsTableName(name)
  writer.exec(`create table if not exists ${p} (n integer primary key, id text not null unique, epoch integer,
      position integer, embedder text, payload text not null, v blob not null);
    create table if not exists ${d} (id text primary key, epoch integer not null, position integer not null,
      deleted_at integer not null) without rowid;
    create index if not exists "d_${name}_age" on ${d} (deleted_at);`)
  const info = allRows<{ name: string }>(writer.prepare('select name from pragma_table_info(?)'), `p_${name}`)
  const columns = new Set(info.map((column) => column.name))
  for (const [column, type] of [
    ['epoch', 'integer'],
    ['position', 'integer'],
    ['embedder', 'text'],
  ] as const) {
    if (!columns.has(column)) writer.exec(`alter table ${p} add column ${column} ${type}`)
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
    `delete from ${d} where id in (select id from ${d} where deleted_at <= ? limit ?)`,
  )
  const byEmbedder = reader.prepare(`select embedder, count(*) as points from ${p} group by embedder`)
  return {
    ...openTableReader(reader, p),
    write: createWrite(writer, p, d),
    /** Deletes up to `limit` rows without changing the indexes; false when none was left. */
    purge: (limit: number): boolean => Number(purge.run(limit).changes) > 0,
    /** Forgets up to `limit` deletions made at `before` (ms since 1970) or earlier; false when none was left. */
    forgetDeletions: (before: number, limit: number): boolean =>
      Number(forget.run(before, limit).changes) > 0,
    /** How many points each embedder made; rows of it are read, not those that lie apart. */
    embedders: (): { embedder: string | null; points: number }[] => allRows(byEmbedder),
  }
}

export function pointsTableName(name: string): string {
  return `"p_${name}"`
}

function deletionsTableName(name: string): string {
  return `"d_${name}"`
}

/** The reading half; `p` is the table's own name. */
export function openTableReader(reader: DatabaseSync, p: string) {
  const columns = 'n, id, payload, v, embedder'
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
    byIds: (ids: string[]): StoredPoint[] => ids.flatMap((id) => toPoint(ofId.get(id)) ?? []),
    byRow: (n: number): StoredPoint | undefined => toPoint(ofRow.get(n)),
    /** Rows above `n` in the order of their numbers. */
    rowsAfter: (n: number, limit: number): StoredPoint[] =>
      afterRow.all(n, limit).map((row) => toPoint(row)!),
    /** Points from `id` (inclusive) in the order of ids, read as they are taken: finish before the next call. */
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

interface StoredPosition {
  epoch: number | null
  position: number | null
}

/**
 * Applies those writes that are newer than what the table holds, inside the caller's transaction; `added` is how many
 * more points there are.
 */
function createWrite(writer: DatabaseSync, p: string, d: string) {
  const find = writer.prepare(`select n, payload, epoch, position from ${p} where id = ?`)
  const insert = writer.prepare(
    `insert into ${p} (id, epoch, position, embedder, payload, v) values (?, ?, ?, ?, ?, ?)`,
  )
  const update = writer.prepare(
    `update ${p} set epoch = ?, position = ?, embedder = ?, payload = ?, v = ? where n = ?`,
  )
  const drop = writer.prepare(`delete from ${p} where n = ?`)
  const findDeletion = writer.prepare(`select epoch, position from ${d} where id = ?`)
  const remember = writer.prepare(
    `insert or replace into ${d} (id, epoch, position, deleted_at) values (?, ?, ?, ?)`,
  )
  const forget = writer.prepare(`delete from ${d} where id = ?`)

  function writeOne({ id, payload, vector, position, embedder }: Write): { change?: Change; added: number } {
    const { epoch, offset } = position
    const old = firstRow<{ n: number; payload: string } & StoredPosition>(find, id)
    const deletion = old ? undefined : firstRow<StoredPosition>(findDeletion, id)
    if (!isNewer(position, positionOf(old ?? deletion))) return { added: 0 }
    const before = old ? tokensOf(old.payload) : []
    if (payload === null || vector === null) {
      remember.run(id, epoch, offset, Date.now())
      if (!old) return { added: 0 }
      drop.run(old.n)
      return { change: { n: old.n, vector: null, payload: null, before, tokens: [] }, added: -1 }
    }
    const blob = new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)
    const tokens = old?.payload === payload ? before : tokensOf(payload)
    if (old) {
      update.run(epoch, offset, embedder, payload, blob, old.n)
      return { change: { n: old.n, vector, payload, before, tokens }, added: 0 }
    }
    if (deletion) forget.run(id)
    const n = Number(insert.run(id, epoch, offset, embedder, payload, blob).lastInsertRowid)
    return { change: { n, vector, payload, before, tokens }, added: 1 }
  }
  return (writes: Write[]): { changes: Change[]; added: number } => {
    const done = writes.map(writeOne)
    return {
      changes: done.flatMap(({ change }) => change ?? []),
      added: done.reduce((sum, { added }) => sum + added, 0),
    }
  }
}

function positionOf(row: StoredPosition | undefined): LogPosition | undefined {
  if (row === undefined || row.epoch === null || row.position === null) return undefined
  return { epoch: row.epoch, offset: row.position }
}

/** The filter words of a payload in JSON text. */
export function tokensOf(payload: string): string[] {
  return payloadTokens(JSON.parse(payload) as Payload)
}

function toPoint(row: Record<string, SQLInputValue> | undefined): StoredPoint | undefined {
  if (!row) return undefined
  const blob = row.v as Uint8Array
  const aligned = blob.byteOffset % Float32Array.BYTES_PER_ELEMENT === 0 ? blob : blob.slice()
  const vector = new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4)
  const { n, id, payload, embedder } = row as Record<string, SQLInputValue> & Omit<StoredPoint, 'vector'>
  return { n, id, payload, vector, embedder }
}
