/** The dispatcher: claims runs, works on them, and looks after those of dispatchers and nodes that are gone. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { createWakeup, sleep } from '#lib/backoff.ts'
import { isUnavailable } from '#lib/errors.ts'
import { withLease } from '#runtime/leases.ts'
import { noTracing } from '#runtime/observe/tracing/tracing.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { cancelNotice } from '../state/claims.ts'
import { axon, type EndedRun, endHeldRuns } from '../state/end.ts'
import { storeEvents } from '../state/events.ts'
import { pruneRuns, restartWaiting } from '../state/sweeps.ts'
import { Claimer } from './claimer.ts'
import { readReports } from './node-message.ts'
import type { DispatcherParts, RunHost } from './parts.ts'
import { advance, NodeHealth, sweep } from './upkeep.ts'

/** Those of runs that end together have their reports and events of the fleet looked after together. */
const followUpMs = 20
/** Events may have half a megabyte each. */
const eventsTogetherMax = 16
const endsTogetherMax = 32
const pruneEveryMs = 3_600_000
const pruneFirstAfterMs = 60_000
const pruneLeaseMs = 60_000

export type Dispatcher = ReturnType<typeof startDispatcher>

/** What runs write and read, those of many runs together: so no statement is part of the trace of one of them. */
function storesOf({
  relational: engine,
  tracing = noTracing,
}: DispatcherParts): Pick<RunHost, 'storeEvent' | 'endRun' | 'readReport'> {
  const relational: SqlExecutor = {
    query: (text, params) => tracing.run([], () => engine.query(text, params)),
  }
  // The embedded engine runs one statement at a time.
  const statementsMax = engine.driver === 'embedded' ? 1 : 2
  return {
    storeEvent: createTogether((events) => storeEvents(relational, events), statementsMax, eventsTogetherMax),
    endRun: createTogether((ends) => endHeldRuns(relational, ends), statementsMax, endsTogetherMax),
    readReport: createTogether((runIds) => readReports(relational, runIds), 1, endsTogetherMax),
  }
}

export function startDispatcher(parts: DispatcherParts) {
  const { log, times, relational } = parts
  const health = new NodeHealth()
  const stopping = new AbortController()
  const sweeping = createWakeup()
  const probing = createWakeup()
  let resting = false
  let woken = false
  let begun = false

  const host: RunHost = {
    ...parts,
    ...storesOf(parts),
    busy() {
      woken = true
      if (resting) sweeping.wake()
    },
    wake(slug) {
      claimer.wake(slug)
      host.busy()
    },
    asked(run) {
      parts.news.asked(run)
      parts.onAsked?.(run)
      log.debug({ run: run.runId, agent: run.slug, attempt: run.attempt }, 'runs.asked')
      host.wake(run.slug)
      followUpSoon()
    },
    async ended(runs: readonly EndedRun[]) {
      for (const run of runs) {
        parts.news.ended(run)
        parts.onEnded?.(run)
        const { runId, slug, trigger, status, attempt } = run
        log.debug({ run: runId, agent: slug, trigger, status, attempt }, 'runs.ended')
      }
      // Only with one session every statement sees all that was committed before: else a run that was accepted meanwhile may wait.
      const freed = runs.filter(({ othersWait }) => othersWait || relational.driver !== 'embedded')
      for (const { slug } of freed) claimer.wake(slug)
      if (runs.some(({ trigger }) => trigger !== 'report')) followUpSoon()
      const goals = new Set(runs.flatMap(({ goalId }) => goalId ?? []))
      for (const goalId of goals) await advance(host, health, goalId)
    },
  }
  const claimer = new Claimer(host)

  let followUp: NodeJS.Timeout | undefined
  /** AXON has reports, and the outbox events of the fleet. */
  function followUpSoon(): void {
    followUp ??= setTimeout(() => {
      followUp = undefined
      parts.ringOutbox()
      claimer.wake(axon.slug)
    }, followUpMs)
  }

  const { firstMs: firstAfterMs } = times
  const loops = [
    startRepeating(
      { what: 'probes of nodes', log, wakeup: probing, everyMs: probeEveryMs, firstAfterMs },
      () => health.probe(host, stopping.signal),
    ),
    startRepeating(
      { what: 'sweep of runs', log, wakeup: sweeping, everyMs: sweepEveryMs, firstAfterMs },
      async () => {
        woken = false
        if (!begun) await restartWaiting(relational)
        begun = true
        const { queued, running, dispatching } = await sweep(host, health, claimer.room)
        resting = !(queued || running || dispatching || woken)
        await claimer.stopCanceled()
      },
    ),
    startRepeating({ what: 'old runs', log, everyMs: pruneEveryMs, firstAfterMs: pruneFirstAfterMs }, () =>
      pruneOld(parts, stopping.signal),
    ),
  ]
  const renewing = startRepeating({ what: 'leases of runs', log, everyMs: times.renewMs }, () =>
    claimer.renew(),
  )

  function sweepEveryMs(): number {
    return resting ? times.restMs : times.sweepMs
  }

  function probeEveryMs(): number {
    return resting ? times.probeRestMs : times.probeMs
  }

  return {
    /** A notice of `runsChannel`; none when listening begins, because some may have been missed. */
    heard(notice?: string): void {
      if (notice === cancelNotice) claimer.stopCanceled().catch(() => {})
      if (!notice) sweeping.wake()
      // With a cancel runs that waited have ended, and AXON has their reports.
      else host.wake(notice === cancelNotice ? axon.slug : notice)
    },
    takeAtOnce: claimer.takeAtOnce,
    /** Probes the nodes now: of a nodes file that changed. */
    probe: () => probing.wake(),
    /** Runs that it works on. */
    get size() {
      return claimer.size
    },
    async close() {
      stopping.abort()
      claimer.rest()
      await Promise.all(loops.map((loop) => loop.close()))
      await Promise.race([claimer.idle(), sleep(parts.drainMs())])
      claimer.stop()
      await claimer.idle()
      clearTimeout(followUp)
      await renewing.close()
      await parts.news.close()
    },
  }
}

/** One dispatcher at a time removes them. */
async function pruneOld(
  { relational, holder, retentionDays }: DispatcherParts,
  stopping: AbortSignal,
): Promise<void> {
  const lease = { name: 'runs.prune', holder, ttlMs: pruneLeaseMs }
  await withLease(relational, lease, async ({ signal }) => {
    while (!signal.aborted && !stopping.aborted) {
      if ((await pruneRuns(relational, retentionDays)) === 0) return
    }
  })
}

/**
 * Sends what many runs have to write together: while `statementsMax` statements are on their way, the next one collects. One item
 * alone goes at once, so a run that is by itself never waits. `write` gives the results in the order of its items, at most
 * `itemsMax`, and does for each what it would do for it alone.
 */
export function createTogether<T, R>(
  write: (items: T[]) => Promise<R[]>,
  statementsMax: number,
  itemsMax: number,
): (item: T) => Promise<R> {
  interface Waiting {
    item: T
    result: PromiseWithResolvers<R>
  }
  // No more than runs of this dispatcher: each waits for its result.
  const waiting: Waiting[] = []
  let underWay = 0

  async function writeAll(some: Waiting[]): Promise<void> {
    try {
      const results = await write(some.map(({ item }) => item))
      for (const [n, { result }] of some.entries()) result.resolve(results[n]!)
    } catch (error) {
      if (some.length === 1 || isUnavailable(error)) {
        for (const { result } of some) result.reject(error)
        return
      }
      // Only the items that are to blame may fail.
      for (const one of some) await writeAll([one])
    }
  }

  async function writeWaiting(): Promise<void> {
    underWay++
    while (waiting.length > 0) await writeAll(waiting.splice(0, itemsMax))
    underWay--
  }

  return (item) => {
    const result = Promise.withResolvers<R>()
    waiting.push({ item, result })
    if (underWay < statementsMax) void writeWaiting()
    return result.promise
  }
}
