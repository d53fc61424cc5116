/** Points go into one SQLite table and their filter words into another; rows, matches and counts come out. */

import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { payloadTokens, wideToken } from '../filter-tokens.ts'
import type { Payload } from '../port.ts'

export interface StoredPoint {
  n: number
  id: string
  /** JSON text. */
  payload: string
  vector: Float32Array
}

/** `payload` null: a delete. */
export interface Write {
  id: string
  payload: string | null
  vector: Float32Array | null
}

/** What a write changed, as the index must follow it. */
export type Change = { n: number; vector: Float32Array; tokens: string[] } | { n: number; vector: null }

/** Conditions that SQL checks itself; with more, SQL narrows down and the caller's check of the payload decides. */
const tokensInSqlMax = 12

/** As a limit: all of them. */
export const everyRow = 2 ** 31

export interface PointsTable {
  /** Applies writes in order inside the caller's transaction; `added` is how many more points there are. */
  write(writes: Write[]): { changes: Change[]; added: number }
  byIds(ids: string[]): StoredPoint[]
  byRow(n: number): StoredPoint | undefined
  /** Rows above `n` in the order of their numbers. */
  rowsAfter(n: number, limit: number): StoredPoint[]
  /** Points from `id` (inclusive) in the order of ids. */
  fromId(id: string, limit: number): StoredPoint[]
  countAll(): number
  /** Row numbers that have every word, at most `limit`; rows under the wide word are not among them. */
  withTokens(tokens: string[], limit: number): number[]
  /** As `withTokens`; exact only where `tokensDecide`. */
  countTokens(tokens: string[]): number
  /** True when SQL checks all of so many words itself. */
  tokensDecide(tokens: number): boolean
  /** All row numbers, at most `limit`. */
  rowNumbers(limit: number): number[]
  /** Row numbers above `n` kept under the wide word. */
  wideAfter(n: number, limit: number): number[]
  /** Deletes up to `limit` rows without telling the index; false when none was left. */
  purge(limit: number): boolean
}

/** SQL that makes the two tables of `name` (checked: letters, digits, underscore). */
export function pointsTableSql(name: string): string {
  return `create table if not exists p_${name} (n integer primary key, id text not null unique, payload text not null,
            v blob not null);
          create table if not exists t_${name} (token text not null, n integer not null, primary key (token, n))
            without rowid;`
}

/** `writer` holds the transactions; `reader` sees only what they committed. Both tables must exist. */
export function openPointsTable(writer: DatabaseSync, reader: DatabaseSync, name: string): PointsTable {
  const p = `p_${name}`
  const t = `t_${name}`
  const columns = 'n, id, payload, v'
  const ofId = reader.prepare(`select ${columns} from ${p} where id = ?`)
  const ofRow = reader.prepare(`select ${columns} from ${p} where n = ?`)
  const afterRow = reader.prepare(`select ${columns} from ${p} where n > ? order by n limit ?`)
  const fromId = reader.prepare(`select ${columns} from ${p} where id >= ? order by id limit ?`)
  const numbers = reader.prepare(`select n from ${p} order by n limit ?`)
  const count = reader.prepare(`select count(*) as c from ${p}`)
  const wide = reader.prepare(`select n from ${t} where token = ? and n > ? order by n limit ?`)
  const counting = matchStatements(reader, t, (rows) => `select count(*) as c from (${rows})`)
  const listing = matchStatements(reader, t, (rows) => rows)
  const rarest = reader.prepare(`select count(*) as c from (select 1 from ${t} where token = ? limit 4096)`)
  const rarestFirst = (tokens: string[]) =>
    tokens.length < 2
      ? tokens
      : tokens
          .map((token) => ({ token, count: (rarest.get(token) as { c: number }).c }))
          .sort((a, b) => a.count - b.count)
          .slice(0, tokensInSqlMax)
          .map(({ token }) => token)
  return {
    ...createWriting(writer, p, t),
    byIds: (ids) => ids.flatMap((id) => toPoint(ofId.get(id)) ?? []),
    byRow: (n) => toPoint(ofRow.get(n)),
    rowsAfter: (n, limit) => afterRow.all(n, limit).map((row) => toPoint(row)!),
    fromId: (id, limit) => fromId.all(id, limit).map((row) => toPoint(row)!),
    countAll: () => (count.get() as { c: number }).c,
    withTokens: (tokens, limit) =>
      (listing(tokens.length).all(...rarestFirst(tokens), limit) as { n: number }[]).map((row) => row.n),
    countTokens: (tokens) =>
      (counting(tokens.length).get(...rarestFirst(tokens), everyRow) as { c: number }).c,
    tokensDecide: (tokens) => tokens <= tokensInSqlMax,
    rowNumbers: (limit) => (numbers.all(limit) as { n: number }[]).map((row) => row.n),
    wideAfter: (n, limit) => (wide.all(wideToken, n, limit) as { n: number }[]).map((row) => row.n),
  }
}

/** Statements for "has all of these words", one per number of words. */
function matchStatements(reader: DatabaseSync, t: string, around: (rows: string) => string) {
  const prepared = new Map<number, StatementSync>()
  return (tokens: number): StatementSync => {
    const used = Math.min(tokens, tokensInSqlMax)
    let statement = prepared.get(used)
    if (!statement) {
      const others = Array.from(
        { length: used - 1 },
        (_, i) => ` and exists (select 1 from ${t} o where o.token = ?${i + 2} and o.n = a.n)`,
      )
      const rows = `select a.n from ${t} a where a.token = ?1${others.join('')} limit ?${used + 1}`
      statement = reader.prepare(around(rows))
      prepared.set(used, statement)
    }
    return statement
  }
}

function createWriting(writer: DatabaseSync, p: string, t: string): Pick<PointsTable, 'write' | 'purge'> {
  const find = writer.prepare(`select n, payload from ${p} where id = ?`)
  const insert = writer.prepare(`insert into ${p} (id, payload, v) values (?, ?, ?)`)
  const update = writer.prepare(`update ${p} set payload = ?, v = ? where n = ?`)
  const drop = writer.prepare(`delete from ${p} where n = ?`)
  const addToken = writer.prepare(`insert into ${t} (token, n) values (?, ?)`)
  const dropToken = writer.prepare(`delete from ${t} where token = ? and n = ?`)
  const some = writer.prepare(`select n, payload from ${p} limit ?`)

  function replaceTokens(n: number, before: string[], after: string[]): void {
    for (const token of before) if (!after.includes(token)) dropToken.run(token, n)
    for (const token of after) if (!before.includes(token)) addToken.run(token, n)
  }
  function upsert(id: string, payload: string, vector: Float32Array): { change: Change; added: number } {
    const tokens = payloadTokens(JSON.parse(payload) as Payload)
    const blob = new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)
    const old = find.get(id) as { n: number; payload: string } | undefined
    if (!old) {
      const n = Number(insert.run(id, payload, blob).lastInsertRowid)
      for (const token of tokens) addToken.run(token, n)
      return { change: { n, vector, tokens }, added: 1 }
    }
    update.run(payload, blob, old.n)
    if (old.payload !== payload) replaceTokens(old.n, payloadTokens(JSON.parse(old.payload)), tokens)
    return { change: { n: old.n, vector, tokens }, added: 0 }
  }
  function erase(row: { n: number; payload: string }): void {
    for (const token of payloadTokens(JSON.parse(row.payload) as Payload)) dropToken.run(token, row.n)
    drop.run(row.n)
  }
  return {
    write(writes) {
      const changes: Change[] = []
      let added = 0
      for (const { id, payload, vector } of writes) {
        if (payload !== null && vector !== null) {
          const done = upsert(id, payload, vector)
          changes.push(done.change)
          added += done.added
          continue
        }
        const old = find.get(id) as { n: number; payload: string } | undefined
        if (!old) continue
        erase(old)
        changes.push({ n: old.n, vector: null })
        added--
      }
      return { changes, added }
    },
    purge(limit) {
      const rows = some.all(limit) as unknown as { n: number; payload: string }[]
      rows.forEach(erase)
      return rows.length > 0
    },
  }
}

function toPoint(row: Record<string, SQLInputValue> | undefined): StoredPoint | undefined {
  if (!row) return undefined
  const blob = row.v as Uint8Array
  const aligned = blob.byteOffset % Float32Array.BYTES_PER_ELEMENT === 0 ? blob : blob.slice()
  const vector = new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4)
  return { n: row.n as number, id: row.id as string, payload: row.payload as string, vector }
}
