/**
 * Leases for work that one process may do at a time: rows that expire by the database's clock, with a fencing epoch.
 */

import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'

interface Lease {
  name: string
  holder: string
  /** Rises with every change of holder, so that late work of an earlier holder can be refused by its epoch. */
  epoch: number
  /** `performance.now()` until which the lease is certainly held; counted from before the query was sent. */
  validUntil: number
}

/** Takes the lease, or renews it when `holder` has it already; null while another holder has it. */
export async function acquireLease(
  executor: SqlExecutor,
  name: string,
  holder: string,
  ttlMs: number,
): Promise<Lease | null> {
  const askedAt = performance.now()
  const { rows } = await executor.query<{ epoch: number }>(
    `insert into platform.leases as held (name, holder, expires_at)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3::float8 / 1000))
     on conflict (name) do update set
       holder = excluded.holder,
       epoch = held.epoch + case when held.holder = excluded.holder then 0 else 1 end,
       expires_at = excluded.expires_at
     where held.holder = excluded.holder or held.expires_at <= clock_timestamp()
     returning epoch`,
    [name, holder, ttlMs],
  )
  const row = rows[0]
  return row ? { name, holder, epoch: row.epoch, validUntil: askedAt + ttlMs } : null
}

/** Gives the lease back; the row stays, because it carries the epoch. A lease that is lost already is no error. */
export async function releaseLease(executor: SqlExecutor, lease: Lease): Promise<void> {
  await executor.query(
    `update platform.leases set expires_at = clock_timestamp() where name = $1 and holder = $2 and epoch = $3`,
    [lease.name, lease.holder, lease.epoch],
  )
}

/** Milliseconds for which the lease is certainly still held. */
export function leaseLeftMs(lease: Lease): number {
  return Math.max(0, lease.validUntil - performance.now())
}

export interface HeldLease {
  readonly epoch: number
  /** Aborts when the lease is lost or could not be renewed in time. */
  readonly signal: AbortSignal
  /** Milliseconds for which it is certainly still held. */
  leftMs(): number
}

/**
 * Runs `work` while holding the lease, which is renewed after every third of its time and given back afterwards.
 * Resolves with undefined, without running anything, while another holder has it. Times are those of this process's own
 * steady clock, so a step of the wall clock changes nothing; but a process or machine that was paused can do something
 * before it notices. Work that must not land behind that of the next holder therefore needs a fence of its own, such as
 * a writer name (`Publisher.fenced`) or a condition on the epoch.
 */
export async function withLease<T>(
  relational: Relational,
  options: { name: string; holder: string; ttlMs: number },
  work: (lease: HeldLease) => Promise<T>,
): Promise<T | undefined> {
  const { name, holder, ttlMs } = options
  const first = await acquireLease(relational, name, holder, ttlMs)
  if (!first) return undefined
  const { epoch } = first
  let lease = first
  const lost = new AbortController()
  const ended = new AbortController()
  const over = AbortSignal.any([lost.signal, ended.signal])
  let expiry = expireInTime()
  const renewing = keepRenewing()

  /** Also when a renewal is not answered. */
  function expireInTime(): NodeJS.Timeout {
    return setTimeout(() => lost.abort(), leaseLeftMs(lease))
  }

  async function keepRenewing(): Promise<void> {
    for (;;) {
      await sleep(ttlMs / 3, over)
      if (over.aborted) return
      // Undefined: the database is away, and may be back before the lease expires.
      const renewed = await acquireLease(relational, name, holder, ttlMs).catch(() => undefined)
      if (renewed) lease = renewed
      // With another epoch it is a new one, which is given back.
      if (renewed === null || lease.epoch !== epoch) return lost.abort()
      if (!renewed) continue
      clearTimeout(expiry)
      expiry = expireInTime()
    }
  }

  const leftMs = () => (lost.signal.aborted ? 0 : leaseLeftMs(lease))
  try {
    return await work({ epoch, signal: lost.signal, leftMs })
  } finally {
    ended.abort()
    await renewing
    clearTimeout(expiry)
    await releaseLease(relational, lease).catch(() => {})
  }
}
