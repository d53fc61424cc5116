/** Takes points out of a collection when they expire: out of the table and of every index, in the slices of the write queue. */

import type { PointsTable } from './points-table.ts'
import { pointsPerSlice, type WriteQueue, type WriteTarget } from './write-queue.ts'

export type Expiry = ReturnType<typeof createExpiry>

/** Between an expiry and the end of the removal reads leave the points out by themselves. */
export function createExpiry(
  table: PointsTable,
  target: Pick<WriteTarget, 'committed' | 'index'>,
  queue: WriteQueue,
) {
  let running: Promise<void> | undefined
  let removals = 0
  const removing: typeof target = {
    committed(added) {
      table.findEarliestExpiry()
      target.committed(added)
    },
    index: target.index,
  }
  const isDue = () => table.earliestExpiry() <= Date.now()

  async function remove(): Promise<void> {
    removals += 1
    try {
      do await queue.addFirst(removing, () => table.expire(Date.now(), pointsPerSlice))
      while (isDue())
    } finally {
      running = undefined
      removals += 1
    }
  }
  return {
    /** Changes when points expire and when they are removed. */
    removals: (): number => removals,
    isRunning: (): boolean => running !== undefined,
    /** Whether no index has expired points. */
    isSettled: (): boolean => !running && !isDue(),
    /** Begins to remove expired points. The alarm and callers of `settled` report faults. */
    begin(): void {
      if (running || !isDue()) return
      running = remove()
      running.catch(() => {})
    },
    /** Resolves when no index has expired points, at once where none has. */
    async settled(): Promise<void> {
      while (running || isDue()) {
        running ??= remove()
        await running
      }
    },
    /** How many points in the table have expired. */
    expired: (): number => (isDue() ? table.countExpired() : 0),
    /** About how many of these have payloads that match. */
    expiredMatching: (test: (payload: string) => boolean): number =>
      isDue() ? table.estimateExpired(test) : 0,
  }
}

/** Several points that expire one after the other are removed together; reads of them do not wait for it. */
const restMs = 200
const retryMs = 30_000
/** Also finds out when the clock was set. Beyond 2^31 - 1 a timer would end at once. */
const timerMsMax = 3_600_000

/** Calls `remove` when the first point expires, so that reads seldom have to wait for it; `next` is that time. */
export function createExpiryAlarm(
  { remove, next }: { remove(): Promise<void>; next(): number },
  failed: (error: unknown) => void,
) {
  let timer: NodeJS.Timeout | undefined
  let setFor = Number.POSITIVE_INFINITY
  let earliest = 0
  let ended = false

  function set(time: number): void {
    if (ended || time >= setFor) return
    clearTimeout(timer)
    setFor = time
    const waitMs = Math.max(time, earliest) - Date.now()
    timer = setTimeout(ring, Math.min(Math.max(waitMs, 0), timerMsMax)).unref()
  }
  async function ring(): Promise<void> {
    // Until it is set again below, a write must not ring twice.
    setFor = Number.NEGATIVE_INFINITY
    let rest = restMs
    try {
      await remove()
    } catch (error) {
      rest = retryMs
      if (!ended) failed(error)
    }
    earliest = Date.now() + rest
    setFor = Number.POSITIVE_INFINITY
    set(next())
  }
  return {
    /** A point expires at `time`. */
    set,
    end(): void {
      ended = true
      clearTimeout(timer)
    },
  }
}
