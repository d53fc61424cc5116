/** The rows of a collection in the order of their `updated_at`, in the file of filter words, which may be lost at any time. */

import type { DatabaseSync } from 'node:sqlite'
import { allRows } from '#lib/sqlite.ts'
import { updatedAtOf } from '../filter.ts'
import type { Payload } from '../port.ts'

/** A row and its time, in microseconds since 1970. */
export interface TimedRow {
  n: number
  at: number
}

/** A row without a time: before all times. */
const noTime = -1e300

export type Times = ReturnType<typeof openTimes>

export function openTimes(db: DatabaseSync, name: string) {
  const t = `"t_${name}"`
  db.exec(`create table if not exists ${t} (n integer primary key, at real not null);
    create index if not exists "t_${name}_at" on ${t} (at, n)`)
  const put = db.prepare(`insert into ${t} (n, at) values (?, ?)
    on conflict (n) do update set at = excluded.at where at <> excluded.at`)
  const remove = db.prepare(`delete from ${t} where n = ?`)
  const newest = db.prepare(`select n, at from ${t} where (at, n) <= (?, ?) order by at desc, n desc limit ?`)
  const oldest = db.prepare(`select n, at from ${t} where (at, n) >= (?, ?) order by at, n limit ?`)
  const between = db.prepare(`select n from ${t} where at between ? and ? or at = ${noTime}`)
  const all = { at: Number.MAX_VALUE, n: Number.MAX_SAFE_INTEGER }

  /** From the first row that has a time; those without one come behind. */
  function fromOldest(from: TimedRow | undefined, limit: number): TimedRow[] {
    const { at, n } = from ?? { at: noTime, n: all.n }
    if (at === noTime && from) {
      return allRows<TimedRow>(oldest, at, n, limit).filter((row) => row.at === noTime)
    }
    const timed = allRows<TimedRow>(oldest, at, n, limit)
    if (timed.length === limit) return timed
    return [...timed, ...fromOldest({ at: noTime, n: 0 }, limit - timed.length)]
  }
  return {
    /** `payload` is JSON text, null for a row that is no more. */
    replace(n: number, payload: string | null): void {
      if (payload === null) remove.run(n)
      else put.run(n, updatedAtOf(JSON.parse(payload) as Payload) ?? noTime)
    },
    /** Rows from `from` on (inclusive), rows without a time last. */
    rows(direction: 'asc' | 'desc', from: TimedRow | undefined, limit: number): TimedRow[] {
      if (direction === 'asc') return fromOldest(from, limit)
      const { at, n } = from ?? all
      return allRows(newest, at, n, limit)
    },
    /** Rows whose time is between these, both included, and rows without a time, such as those with several. */
    rowsWithin: ({ least, most }: { least: number; most: number }): number[] =>
      allRows<{ n: number }>(
        between,
        Math.max(least, -Number.MAX_VALUE),
        Math.min(most, Number.MAX_VALUE),
      ).map(({ n }) => n),
    clear: (): void => db.exec(`delete from ${t}`),
    drop: (): void => db.exec(`drop table ${t}`),
  }
}
