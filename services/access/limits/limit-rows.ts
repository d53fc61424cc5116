/**
 * Where the rows of the agents' limits are kept; the rule that changes them is lease-rule.ts. Gateways that share a
 * database read them there and write them back, by its clock. A process that has its database for itself keeps them in
 * memory, so that no request waits for the database; a lease of the day is written down before it is granted, so
 * that a restart knows it.
 */

import { type Relational, sqlState } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import {
  type Holder,
  type LeaseAnswer,
  type LeaseAsk,
  type LimitRow,
  leaseFrom,
  newLimitRow,
  usedOn,
  utcDay,
} from './lease-rule.ts'

/** Rows of agents that nobody asked for in this time hold nothing any more. */
const forgottenAfterS = 3_600
const forgottenInMemoryAfterMs = 60_000
/** A write is refused when another gateway was faster; one of them always gets ahead. */
const roundsMax = 20
/** A lock that was not had, too much for the server, or a statement that was stopped: the next ask may succeed. */
const passingStates = /^(40|53|55P03|57)/

/** By the embedded database: all ingresses of this process, and its commands, count in the same rows. */
const ofThisProcess = new WeakMap<Relational, SharedLimits>()

export function limitRowsOf(relational: Relational): SharedLimits {
  if (relational.driver !== 'embedded') return createLimitRows(relational)
  const rows = ofThisProcess.get(relational) ?? createMemoryRows(relational)
  ofThisProcess.set(relational, rows)
  return rows
}

export interface SharedLimits {
  /** Throws AppError `relational_engine_unavailable` while the database is away. */
  lease(ask: LeaseAsk): Promise<LeaseAnswer>
  /** Operations of today that began, as far as the gateways reported. */
  usedToday(key: string): Promise<number>
  /** Writes down exactly the usage, after a limiter returned its leases. */
  flush(): Promise<void>
  /** Deletes the rows that are long over. */
  sweep(): Promise<void>
}

/** `clock` (ms since 1970) is for tests; everybody else goes by the database's. */
export function createLimitRows(relational: Pick<Relational, 'query'>, clock?: () => number): SharedLimits {
  const read = (key: string) => readRow(relational, key, clock)
  return {
    async lease(ask) {
      try {
        for (let round = 1; round <= roundsMax; round++) {
          const stored = await read(ask.key)
          const answer = leaseFrom(stored.row, ask, stored.atMs)
          if (await writeRow(relational, ask.key, stored)) return answer
        }
      } catch (error) {
        throw passingStates.test(sqlState(error) ?? '') ? limitsAway(error) : error
      }
      throw limitsAway()
    },
    async usedToday(key) {
      const { row, atMs } = await read(key)
      return usedOn(row, atMs)
    },
    // Every answer was written down already.
    flush: async () => {},
    async sweep() {
      await relational.query(
        'delete from platform.limit_leases where touched_at < now() - make_interval(secs => $1::float8)',
        [forgottenAfterS],
      )
      await forgetPastDays(relational)
    },
  }
}

async function forgetPastDays(relational: Pick<Relational, 'query'>): Promise<void> {
  await relational.query("delete from platform.limit_days where day < (now() at time zone 'utc')::date - 1")
}

interface Stored {
  row: LimitRow
  /** Null where there is no row yet. */
  version: string | null
  /** What is written down as leased, and of which day. */
  day: string
  leased: number
  /** When it was read. */
  atMs: number
}

interface StoredRow {
  version: string | null
  began: number[] | null
  holders: Record<string, Holder> | null
  holders_day: string | null
  day: string | null
  leased: number | null
  at_ms: number
}

/** Leases of the day survive a crash of the server, the rest does not: either may be missing. */
async function readRow(
  relational: Pick<Relational, 'query'>,
  key: string,
  clock: (() => number) | undefined,
): Promise<Stored> {
  const { rows } = await relational.query<StoredRow>(
    `select l.version::text as version, l.began, l.holders, l.day as holders_day, d.day, d.leased,
            extract(epoch from clock_timestamp())::float8 * 1000 as at_ms
     from (values ($1::text)) as asked (key)
     left join platform.limit_leases l on l.key = asked.key
     left join platform.limit_days d on d.key = asked.key`,
    [key],
  )
  const { version, began, holders, holders_day, day, leased, at_ms } = rows[0]!
  const atMs = clock?.() ?? at_ms
  const rowDay = holders_day ?? utcDay(atMs)
  const row = newLimitRow(rowDay, day === rowDay ? (leased ?? 0) : 0)
  if (began) row.began = began
  if (holders) row.holders = new Map(Object.entries(holders))
  return { row, version, day: rowDay, leased: row.leased, atMs }
}

/**
 * False when somebody else wrote the row since it was read: a trigger gives each write a new version. No lock is held between reading and writing, so that a
 * gateway that stops in between holds up nobody.
 */
async function writeRow(
  relational: Pick<Relational, 'query'>,
  key: string,
  { row, version, day, leased }: Stored,
): Promise<boolean> {
  const written = day === row.day ? leased : 0
  const { rowCount } = await relational.query(
    `with written as (
       insert into platform.limit_leases as l (key, began, holders, day) values ($1, $2::float8[], $3::jsonb, $4::date)
       on conflict (key) do update set began = excluded.began, holders = excluded.holders, day = excluded.day,
         touched_at = clock_timestamp()
         where l.version = $5::uuid
       returning key),
     counted as (
       insert into platform.limit_days as d (key, day, leased) select key, $4::date, $6 from written where $7
       on conflict (key) do update set day = excluded.day, leased = excluded.leased)
     select key from written`,
    [
      key,
      row.began,
      JSON.stringify(Object.fromEntries(row.holders)),
      row.day,
      version,
      row.leased,
      row.leased !== written,
    ],
  )
  return rowCount > 0
}

export function limitsAway(cause?: unknown): AppError {
  return new AppError('relational_engine_unavailable', 'The limits cannot be counted now.', {
    retryAfter: 1,
    ...(cause === undefined ? {} : { cause }),
  })
}

interface MemoryRow {
  row: LimitRow
  /** What the database holds as leased, at least as much as is granted, and of which day. */
  saved: number
  savedDay: string
}

/** `clock` gives ms since 1970. */
export function createMemoryRows(
  relational: Pick<Relational, 'query'>,
  clock: () => number = () => Date.now(),
): SharedLimits {
  const rows = new Map<string, Promise<MemoryRow>>()

  async function load(key: string): Promise<MemoryRow> {
    const day = utcDay(clock())
    const { rows: found } = await relational.query<{ leased: number }>(
      'select leased from platform.limit_days where key = $1 and day = $2',
      [key, day],
    )
    const saved = found[0]?.leased ?? 0
    return { row: newLimitRow(day, saved), saved, savedDay: day }
  }
  function rowOf(key: string): Promise<MemoryRow> {
    const known = rows.get(key)
    if (known) return known
    const loading = load(key)
    rows.set(key, loading)
    loading.catch(() => rows.delete(key))
    return loading
  }
  const loaded = () => Promise.all([...rows].map(async ([key, held]) => [key, await held] as const))

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
  async function saveExactly(some: (readonly [string, MemoryRow])[]): Promise<void> {
    for (const [key, held] of some) {
      if (held.savedDay !== held.row.day || held.saved !== held.row.leased) await save(key, held)
    }
  }

  return {
    async lease(ask) {
      const held = await rowOf(ask.key)
      const answer = leaseFrom(held.row, ask, clock())
      const saved = held.savedDay === held.row.day ? held.saved : 0
      // When this fails, nothing was granted: the next ask says what its instance holds.
      if (held.row.leased > saved) await save(ask.key, held)
      return answer
    },
    async usedToday(key) {
      return usedOn((await rowOf(key)).row, clock())
    },
    flush: async () => saveExactly(await loaded()),
    async sweep() {
      const idleSince = clock() - forgottenInMemoryAfterMs
      const idle = (await loaded()).filter(([, { row }]) =>
        [...row.holders.values()].every(({ seen }) => seen < idleSince),
      )
      await saveExactly(idle)
      for (const [key, held] of idle) if (held.saved === held.row.leased) rows.delete(key)
      await forgetPastDays(relational)
    },
  }
}
