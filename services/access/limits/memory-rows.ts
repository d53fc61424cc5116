/**
 * The rows of the agents' limits in a process that has its database for itself: in memory, so that no request waits for
 * the database. What is leased of the day is written down before it is granted, so that a restart knows it.
 */

import type { Relational } from '#engines/relational/port.ts'
import { type LimitRow, leaseFrom, newLimitRow, usedOn, utcDay } from './lease-rule.ts'
import { forgetPastDays, type SharedLimits } from './limit-rows.ts'

interface MemoryRow {
  row: LimitRow
  /** What the database holds as leased, at least as much as is granted, and of which day. */
  saved: number
  savedDay: string
}

const forgottenAfterMs = 60_000

/** `clock` gives ms since 1970. */
export function createMemoryRows(
  relational: Pick<Relational, 'query'>,
  clock: () => number = () => Date.now(),
): SharedLimits {
  const rows = new Map<string, MemoryRow>()
  const loading = new Map<string, Promise<MemoryRow>>()

  async function load(key: string): Promise<MemoryRow> {
    const day = utcDay(clock())
    const { rows: found } = await relational.query<{ leased: number }>(
      'select leased from platform.limit_days where key = $1 and day = $2',
      [key, day],
    )
    const saved = found[0]?.leased ?? 0
    const loaded = { row: newLimitRow(day, saved), saved, savedDay: day }
    rows.set(key, loaded)
    return loaded
  }
  function loadOnce(key: string): Promise<MemoryRow> {
    const running = loading.get(key) ?? load(key).finally(() => loading.delete(key))
    loading.set(key, running)
    return running
  }

  /** The embedded database runs statements in the order in which they are given: a later one is never undone. */
  async function save(key: string, held: MemoryRow): Promise<void> {
    const { day, leased } = held.row
    // Until the database has said that it holds it, nothing counts as saved.
    held.saved = 0
    await relational.query(
      `insert into platform.limit_days as d (key, day, leased) values ($1, $2::date, $3)
       on conflict (key) do update set day = excluded.day, leased = excluded.leased`,
      [key, day, leased],
    )
    Object.assign(held, { saved: leased, savedDay: day })
  }
  async function saveExactly(some: Iterable<[string, MemoryRow]>): Promise<void> {
    for (const [key, held] of some) {
      if (held.savedDay !== held.row.day || held.saved !== held.row.leased) await save(key, held)
    }
  }

  return {
    async lease(ask) {
      const held = rows.get(ask.key) ?? (await loadOnce(ask.key))
      const answer = leaseFrom(held.row, ask, clock())
      const saved = held.savedDay === held.row.day ? held.saved : 0
      // When this fails, nothing was granted: the next ask says what its instance holds.
      if (held.row.leased > saved) await save(ask.key, held)
      return answer
    },
    async usedToday(key) {
      return usedOn((rows.get(key) ?? (await loadOnce(key))).row, clock())
    },
    flush: () => saveExactly([...rows]),
    async sweep() {
      const idleSince = clock() - forgottenAfterMs
      const idle = [...rows].filter(([, { row }]) =>
        [...row.holders.values()].every(({ seen }) => seen < idleSince),
      )
      await saveExactly(idle)
      for (const [key, held] of idle) if (held.saved === held.row.leased) rows.delete(key)
      await forgetPastDays(relational)
    },
  }
}
