/**
 * The limits of a platform that is one process: counters in memory. The day's use is saved a chunk ahead, so that a
 * restart knows it; what a killed process had saved ahead counts as used.
 */

import type { Relational } from '#engines/relational/port.ts'
import { begunOf, dayAfter, leaseFrom, newSharedAgent, type SharedAgent, utcDay } from './shared-agent.ts'
import { dayGrant, type LeaseAsk, type SharedLimits } from './shared-limits.ts'

interface Counted {
  agent: SharedAgent
  /** Operations of the day that the database holds as used. */
  saved: number
  savedDay: string
}

const forgottenAfterMs = 60_000
/** How old the figure is that others see. */
const noteEveryMs = 1_000

export function createMemoryLimits(
  relational: Pick<Relational, 'query'>,
  now: () => number = Date.now,
): SharedLimits {
  const agents = new Map<string, Counted>()
  const changed = new Set<string>()
  const loading = new Map<string, Promise<Counted>>()

  async function load(key: string): Promise<Counted> {
    const day = utcDay(now())
    const { rows } = await relational.query<{ used: number }>(
      'select leased as used from platform.limit_days where key = $1 and day = $2',
      [key, day],
    )
    const used = rows[0]?.used ?? 0
    const counted = { agent: newSharedAgent(day, used), saved: used, savedDay: day }
    agents.set(key, counted)
    return counted
  }
  function countedOf(key: string): Promise<Counted> {
    const running = loading.get(key) ?? load(key).finally(() => loading.delete(key))
    loading.set(key, running)
    return running
  }
  /** Before more is leased than is saved, the database holds it. How much may be leased. */
  async function saveAhead(counted: Counted, ask: LeaseAsk): Promise<number> {
    if (ask.limits.day === null || ask.day_wanted === 0) return 0
    const day = utcDay(now())
    const { leased, held } = dayAfter(counted.agent, ask, day)
    const saved = counted.savedDay === day ? counted.saved : 0
    const most = dayGrant(ask.day_wanted, ask.limits.day - leased, held)
    if (leased + most <= saved) return most
    try {
      await save(relational, [[ask.key, leased + most, begunOf(counted.agent)]], day)
    } catch (error) {
      if (leased + ask.day_wanted > saved) throw error
      return saved - leased
    }
    counted.saved = leased + most
    counted.savedDay = day
    return most
  }

  // For whoever looks from outside; a killed process loses none of it, because what it saved ahead counts.
  let noted: Promise<unknown> = Promise.resolve()
  const noting = setInterval(() => {
    const some = [...changed].flatMap((key): [string, Counted][] => {
      const counted = agents.get(key)
      return counted ? [[key, counted]] : []
    })
    changed.clear()
    if (some.length > 0) noted = saveAll(relational, some, false).catch(() => {})
  }, noteEveryMs)
  noting.unref()

  return {
    rateShare: 1 / 5,
    refusalMsMin: 0,
    async lease(ask) {
      const counted = agents.get(ask.key) ?? (await countedOf(ask.key))
      const dayMost = await saveAhead(counted, ask)
      changed.add(ask.key)
      return leaseFrom(counted.agent, ask, now(), dayMost)
    },
    async usedToday(key) {
      const { agent } = agents.get(key) ?? (await countedOf(key))
      return agent.day === utcDay(now()) ? begunOf(agent) : 0
    },
    async sweep() {
      const idle = new Map<string, Counted>()
      for (const [key, counted] of agents) {
        const seenAt = Math.max(0, ...[...counted.agent.holders.values()].map((holder) => holder.seenAt))
        if (seenAt < now() - forgottenAfterMs) idle.set(key, counted)
      }
      // Forgotten first: whoever asks now loads what is saved here.
      for (const key of idle.keys()) agents.delete(key)
      await saveAll(relational, idle, true)
      await relational.query('delete from platform.limit_days where day < $1', [utcDay(now())])
    },
    async close() {
      clearInterval(noting)
      await noted
      await saveAll(relational, agents, true)
    },
  }
}

/** Writes down how many began; with `exact` also what was saved ahead and not used. */
async function saveAll(
  relational: Pick<Relational, 'query'>,
  agents: Iterable<[string, Counted]>,
  exact: boolean,
): Promise<void> {
  const byDay = Map.groupBy(
    [...agents].filter(([, { agent, savedDay }]) => agent.day === savedDay),
    ([, { savedDay }]) => savedDay,
  )
  for (const [day, members] of byDay) {
    const rows = members.map(
      ([key, { agent, saved }]): Saved => [key, exact ? agent.leased : saved, begunOf(agent)],
    )
    await save(relational, rows, day)
    if (exact) for (const [, counted] of members) counted.saved = counted.agent.leased
  }
}

type Saved = [key: string, leased: number, begun: number]

/** The embedded database runs statements in the order in which they are given: a later one is never undone. */
async function save(relational: Pick<Relational, 'query'>, rows: Saved[], day: string): Promise<void> {
  await relational.query(
    `insert into platform.limit_days (key, day, leased, begun)
     select key, $4::date, leased, begun
     from unnest($1::text[], $2::bigint[], $3::bigint[]) as given (key, leased, begun)
     on conflict (key) do update set day = excluded.day, leased = excluded.leased, begun = excluded.begun`,
    [rows.map(([key]) => key), rows.map(([, leased]) => leased), rows.map(([, , begun]) => begun), day],
  )
}
