/** Who does what only one may do at a time: rows that run out by the database's clock, with an epoch for fencing. */

import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'

export interface Lease {
  name: string
  holder: string
  /** Rises with every change of holder: what an earlier holder still does under its own epoch can be refused. */
  epoch: number
  /** `performance.now()` until which the lease holds for sure; counted from before the database was asked. */
  validUntil: number
}

/** Takes the lease, or prolongs the own one; null while another holder has it. */
export async function acquireLease(
  executor: SqlExecutor,
  name: string,
  holder: string,
  ttlMs: number,
): Promise<Lease | null> {
  const asked = performance.now()
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
  return row ? { name, holder, epoch: row.epoch, validUntil: asked + ttlMs } : null
}

/** The prolonged lease; null when another holder has taken it meanwhile. */
export async function renewLease(executor: SqlExecutor, lease: Lease, ttlMs: number): Promise<Lease | null> {
  const asked = performance.now()
  const { rowCount } = await executor.query(
    `update platform.leases set expires_at = clock_timestamp() + make_interval(secs => $4::float8 / 1000)
     where name = $1 and holder = $2 and epoch = $3`,
    [lease.name, lease.holder, lease.epoch, ttlMs],
  )
  return rowCount === 1 ? { ...lease, validUntil: asked + ttlMs } : null
}

/** Gives the lease back; the row stays, because it carries the epoch. No fault when it is lost already. */
export async function releaseLease(executor: SqlExecutor, lease: Lease): Promise<void> {
  await executor.query(
    `update platform.leases set expires_at = clock_timestamp() where name = $1 and holder = $2 and epoch = $3`,
    [lease.name, lease.holder, lease.epoch],
  )
}

/** Milliseconds for which the lease holds for sure, whatever the database thinks by now. */
export function leaseLeftMs(lease: Lease): number {
  return Math.max(0, lease.validUntil - performance.now())
}

export interface HeldLease {
  readonly epoch: number
  /** Aborts when the lease is lost or could not be prolonged in time. */
  readonly signal: AbortSignal
  /** Milliseconds for which it holds for sure. */
  leftMs(): number
}

/**
 * Runs `work` while holding the lease, prolonging it at every third of its time, and gives it back afterwards.
 * Resolves with undefined, without running anything, while another holder has it.
 */
export async function withLease<T>(
  relational: Relational,
  options: { name: string; holder: string; ttlMs: number },
  work: (lease: HeldLease) => Promise<T>,
): Promise<T | undefined> {
  const { name, holder, ttlMs } = options
  const first = await acquireLease(relational, name, holder, ttlMs)
  if (!first) return undefined
  let lease = first
  const lost = new AbortController()
  const ended = new AbortController()
  const prolonging = prolong()

  async function prolong(): Promise<void> {
    while (!ended.signal.aborted) {
      await sleep(ttlMs / 3, ended.signal)
      if (ended.signal.aborted) return
      const renewed = await renewLease(relational, lease, ttlMs).catch(() => undefined)
      if (renewed) lease = renewed
      // Null: somebody else has it. Undefined: the database is away, and the lease may outlive that.
      if (renewed === null || leaseLeftMs(lease) === 0) return lost.abort()
    }
  }

  try {
    return await work({ epoch: first.epoch, signal: lost.signal, leftMs: () => leaseLeftMs(lease) })
  } finally {
    ended.abort()
    await prolonging
    await releaseLease(relational, lease).catch(() => {})
  }
}
