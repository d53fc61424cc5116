/** Writes the table of points and that of the positions of points that are gone: operations, and expiries that are due. */

import type { DatabaseSync } from 'node:sqlite'
import { allRows, firstRow } from '#lib/sqlite.ts'
import { isNewer } from '../collections.ts'
import { payloadTokens } from '../filter.ts'
import type { LogPosition, Payload } from '../port.ts'

/** `payload` null: a delete. */
export interface Write {
  id: string
  position: LogPosition
  payload: string | null
  vector: Float32Array | null
  embedder: string | null
  /** In ms since 1970. */
  expiresAt: number | null
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

/** Changes of one transaction; `added` is how many more points there are. */
export interface Written {
  changes: Change[]
  added: number
}

export interface StoredPosition {
  epoch: number | null
  position: number | null
}

/** All of it runs inside the caller's transaction, but for the earliest expiry. */
export function createPointsWriter(writer: DatabaseSync, p: string, d: string) {
  const find = writer.prepare(`select n, payload, epoch, position from ${p} where id = ?`)
  const insert = writer.prepare(
    `insert into ${p} (id, epoch, position, embedder, expires_at, payload, v) values (?, ?, ?, ?, ?, ?, ?)`,
  )
  const update = writer.prepare(
    `update ${p} set epoch = ?, position = ?, embedder = ?, expires_at = ?, payload = ?, v = ? where n = ?`,
  )
  const drop = writer.prepare(`delete from ${p} where n = ?`)
  const findGone = writer.prepare(`select epoch, position from ${d} where id = ?`)
  const remember = writer.prepare(
    `insert or replace into ${d} (id, epoch, position, deleted_at, expired) values (?, ?, ?, ?, ?)`,
  )
  const forget = writer.prepare(`delete from ${d} where id = ?`)
  const due = writer.prepare(
    `select n, id, payload, epoch, position from ${p} where expires_at <= ? order by expires_at limit ?`,
  )
  const least = writer.prepare(`select min(expires_at) as least from ${p} where expires_at is not null`)
  const readEarliest = () => firstRow<{ least: number | null }>(least)?.least ?? Number.POSITIVE_INFINITY
  /** No point in the table expires before; a rolled back or replaced write may leave it too early. */
  let earliest = readEarliest()

  function writeOne({ id, payload, vector, position, embedder, expiresAt }: Write): Written {
    const { epoch, offset } = position
    const old = firstRow<{ n: number; payload: string } & StoredPosition>(find, id)
    const gone = old ? undefined : firstRow<StoredPosition>(findGone, id)
    if (!isNewer(position, positionOf(old ?? gone))) return nothing
    const before = old ? tokensOf(old.payload) : []
    const now = Date.now()
    const isExpired = expiresAt !== null && expiresAt <= now
    if (payload === null || vector === null || isExpired) {
      remember.run(id, epoch, offset, now, isExpired ? 1 : null)
      if (!old) return nothing
      drop.run(old.n)
      return { changes: [removal(old.n, before)], added: -1 }
    }
    const blob = new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)
    const tokens = old?.payload === payload ? before : tokensOf(payload)
    if (expiresAt !== null) earliest = Math.min(earliest, expiresAt)
    if (old) {
      update.run(epoch, offset, embedder, expiresAt, payload, blob, old.n)
      return { changes: [{ n: old.n, vector, payload, before, tokens }], added: 0 }
    }
    if (gone) forget.run(id)
    const n = Number(insert.run(id, epoch, offset, embedder, expiresAt, payload, blob).lastInsertRowid)
    return { changes: [{ n, vector, payload, before, tokens }], added: 1 }
  }
  return {
    /** Applies those writes that are newer than the stored operations on their points. */
    write(writes: Write[]): Written {
      const done = writes.map(writeOne)
      return {
        changes: done.flatMap(({ changes }) => changes),
        added: done.reduce((sum, { added }) => sum + added, 0),
      }
    },
    /** Removes up to `limit` points that expire at `now` or earlier; their positions stay, marked as expired. */
    expire(now: number, limit: number): Written {
      const rows = allRows<{ n: number; id: string; payload: string; epoch: number; position: number }>(
        due,
        now,
        limit,
      )
      const changes = rows.map(({ n, id, payload, epoch, position }) => {
        remember.run(id, epoch, position, now, 1)
        drop.run(n)
        return removal(n, tokensOf(payload))
      })
      return { changes, added: -changes.length }
    },
    /** In ms since 1970: no point expires before. Infinity where none does. */
    earliestExpiry: (): number => earliest,
    /** To be called when `expire` is committed, so that a rollback hides no expiry. */
    findEarliestExpiry(): void {
      earliest = readEarliest()
    },
  }
}

const nothing: Written = { changes: [], added: 0 }

function removal(n: number, before: string[]): Change {
  return { n, vector: null, payload: null, before, tokens: [] }
}

export function positionOf(row: StoredPosition | undefined): LogPosition | undefined {
  if (row === undefined || row.epoch === null || row.position === null) return undefined
  return { epoch: row.epoch, offset: row.position }
}

/** The filter words of a payload in JSON text. */
export function tokensOf(payload: string): string[] {
  return payloadTokens(JSON.parse(payload) as Payload)
}
