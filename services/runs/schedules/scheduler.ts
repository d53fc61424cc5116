/** Looks for schedules that are due, and fires them: in the process of a dispatcher, in any number of them. */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { createWakeup } from '#lib/backoff.ts'
import type { Closeable } from '#lib/resource.ts'
import { hearNotices, lookRestMs } from '#runtime/notices.ts'
import { startRepeating } from '#runtime/repeat.ts'
import type { NodeSet } from '../nodes/nodes.ts'
import { type Fired, fireNext, lookAhead } from './fire.ts'
import { schedulesChannel } from './schedules.ts'
import { pruneFirings, settleFirings } from './settle.ts'

/** While runs of schedules have not ended. */
const settleEveryMs = 2_000
/** The clock of the database may be stepped while one waits. */
const waitMsMax = 5_000
/** Another instance may be at those that are due. */
const waitMsMin = 20
/** Fired next to each other where the engine takes more than one statement at a time. */
const atOnce = 4
const pruneEveryMs = 3_600_000
const pruneFirstAfterMs = 90_000

interface SchedulerParts {
  relational: Relational
  log: Logger
  nodes(): NodeSet
  /** As of runs. */
  retentionDays: number
  /** Before the first look. */
  firstMs: number
  metrics: ScheduleMetrics
}

export interface ScheduleMetrics {
  fired(fired: Fired): void
  /** So many more runs of schedules failed. */
  failed(count: number): void
  /** How many are due. */
  due(count: number): void
}

export function startScheduler(parts: SchedulerParts): Closeable {
  const { relational, log, metrics } = parts
  const wakeup = createWakeup()
  const stopping = new AbortController()
  let waitMs = waitMsMax

  async function look(): Promise<void> {
    // At rest one statement.
    let ahead = await lookAhead(relational)
    metrics.due(ahead.due)
    if (ahead.open) await settle()
    if (ahead.due > 0) await fireAll()
    if (ahead.open || ahead.due > 0) ahead = await lookAhead(relational)
    const { nextMs, due, open } = ahead
    metrics.due(due)
    const restMs = nextMs === null ? lookRestMs(relational) : waitMsMax
    waitMs = Math.max(waitMsMin, Math.min(nextMs ?? restMs, restMs, open ? settleEveryMs : restMs))
  }

  async function settle(): Promise<void> {
    const { paused, failed } = await settleFirings(relational)
    metrics.failed(failed)
    for (const schedule of paused) log.warn({ schedule, reason: 'failures' }, 'schedules.paused')
  }

  async function fireAll(): Promise<void> {
    const firing = relational.driver === 'embedded' ? 1 : atOnce
    await Promise.all(Array.from({ length: firing }, fireWhileDue))
  }

  async function fireWhileDue(): Promise<void> {
    while (!stopping.signal.aborted) {
      const fired = await fireNext(parts)
      if (!fired) return
      for (const one of fired) {
        metrics.fired(one)
        log[one.result === 'started' ? 'debug' : 'warn'](one, 'schedules.fired')
      }
    }
  }

  const options = { log, firstAfterMs: parts.firstMs, wakeup }
  const looking = startRepeating({ ...options, what: 'schedules', everyMs: () => waitMs }, look)
  const pruning = startRepeating(
    { what: 'old firings', log, everyMs: pruneEveryMs, firstAfterMs: pruneFirstAfterMs },
    () => pruneFirings(relational, parts.retentionDays),
  )
  const notices = hearNotices({ relational, log }, schedulesChannel, () => wakeup.wake())
  return {
    async close() {
      stopping.abort()
      await Promise.all([looking.close(), pruning.close(), notices.close()])
    },
  }
}
