/** Claims runs of nodes, one statement of a node at a time, and keeps the leases of those that are worked on. */

import { SpanKind } from '@opentelemetry/api'
import { describeError } from '#lib/errors.ts'
import {
  followed,
  isSampled,
  noTracing,
  type Tracing,
  traceparentOf,
} from '#runtime/observe/tracing/tracing.ts'
import type { RunNode } from '../nodes/nodes.ts'
import { canceledRuns, claimRuns, renewRuns, type TakeAtOnce } from '../state/claims.ts'
import { ensureNodes } from '../state/node-rows.ts'
import type { ClaimedRun } from '../state/types.ts'
import { RunControl, type RunHost } from './parts.ts'
import { workOn } from './run-task.ts'

/** Each attempt is a span; runs that the agent calls for become its children. */
function inRunSpan(tracing: Tracing, run: ClaimedRun, work: () => Promise<void>): Promise<void> {
  const begunBy = run.traceparent ?? undefined
  if (!isSampled(begunBy)) return tracing.run([], work)
  const span = tracing.begin(`run ${run.slug}`, {
    kind: SpanKind.CONSUMER,
    traceparent: begunBy,
    attributes: {
      'flotilla.run_id': run.runId,
      'flotilla.agent': run.agent,
      'flotilla.trigger': run.trigger,
      'flotilla.attempt': run.attempt,
    },
  })
  // Only this object changes: the row keeps the request's traceparent for the next attempt.
  run.traceparent = traceparentOf(span) ?? begunBy
  return followed([span], tracing.run([span], work))
}

export class Claimer {
  readonly #host: RunHost
  readonly #running = new Map<string, RunControl>()
  readonly #tasks = new Set<Promise<void>>()
  /** Slugs that are being claimed for; true: there is more by now. */
  readonly #claiming = new Map<string, boolean>()
  /** Places for runs that are being claimed. */
  #reserved = 0
  /** Slugs whose runs may wait because this dispatcher has taken on as much as it may, in the order of their turns. */
  readonly #heldUp = new Set<string>()
  /** Slugs whose nodes have a row, which claims lock. */
  readonly #known = new Set<string>()
  #stopped = false

  constructor(host: RunHost) {
    this.#host = host
  }

  get size(): number {
    return this.#running.size
  }

  /** Runs that it can take on now. */
  get room(): number {
    return Math.max(0, this.#host.times.runsMax - this.#running.size - this.#reserved)
  }

  readonly takeAtOnce: TakeAtOnce = ({ slug, userId, sessionId }) => {
    const { holder, times, prepareSession, busy } = this.#host
    const node = this.#host.nodes().bySlug(slug)
    if (!node || this.#stopped || this.room === 0 || this.#heldUp.size > 0) return undefined
    const askedAt = performance.now()
    prepareSession({ node, userId, sessionId })
    return {
      claim: { holder, leaseMs: times.leaseMs, concurrency: node.concurrency },
      begin: (run) => {
        this.#begin(run, node, askedAt)
        busy()
      },
    }
  }

  /** Claims pending runs of this node, soon. */
  wake(slug: string): void {
    if (this.#claiming.has(slug)) {
      this.#claiming.set(slug, true)
      return
    }
    this.#claiming.set(slug, true)
    void this.#claimWhileDue(slug)
  }

  async #claimWhileDue(slug: string): Promise<void> {
    const { log } = this.#host
    try {
      while (this.#claiming.get(slug) && !this.#stopped) {
        this.#claiming.set(slug, false)
        await this.#claim(slug)
        this.#wakeHeldUp()
      }
    } catch (error) {
      log.warn({ slug, reason: describeError(error) }, 'runs.not-claimed')
    } finally {
      this.#claiming.delete(slug)
    }
  }

  async #claim(slug: string): Promise<void> {
    const { relational, holder, times } = this.#host
    const node = this.#host.nodes().bySlug(slug)
    if (!node) return
    const { concurrency } = node
    const max = Math.min(this.room, concurrency)
    if (max === 0) return void this.#heldUp.add(slug)
    this.#reserved += max
    try {
      if (!this.#known.has(slug)) await ensureNodes(relational, [node])
      this.#known.add(slug)
      const askedAt = performance.now()
      const runs = await claimRuns(relational, { slug, concurrency, holder, leaseMs: times.leaseMs, max })
      for (const run of runs) this.#begin(run, node, askedAt)
      if (max < concurrency && runs.length === max) this.#heldUp.add(slug)
    } finally {
      this.#reserved -= max
    }
  }

  /** `askedAt` is the `performance.now()` of before the run was claimed. */
  #begin(run: ClaimedRun, node: RunNode, askedAt: number): void {
    const { times } = this.#host
    const limitMs = Math.min(
      Math.min(times.runMs, node.timeoutMs) - run.elapsedMs,
      run.leftMs ?? Number.POSITIVE_INFINITY,
    )
    const control = new RunControl(run, askedAt, times.leaseMs, limitMs)
    if (this.#stopped) control.stop('stopping')
    this.#running.set(run.runId, control)
    const { tracing = noTracing } = this.#host
    const task = inRunSpan(tracing, run, () => workOn(this.#host, control, node)).finally(() => {
      this.#tasks.delete(task)
      if (this.#running.get(run.runId) === control) this.#running.delete(run.runId)
      this.#wakeHeldUp()
    })
    this.#tasks.add(task)
  }

  /** Nodes take turns at the places of this dispatcher: otherwise one that keeps all of them busy would have each that is free. */
  #wakeHeldUp(): void {
    const [slug] = this.#heldUp
    if (slug === undefined || this.room === 0) return
    this.#heldUp.delete(slug)
    this.wake(slug)
  }

  /** A run that is not in the answer belongs to somebody else. */
  async renew(): Promise<void> {
    const held = [...this.#running.values()]
    if (held.length === 0) return
    const { relational, holder, times } = this.#host
    const askedAt = performance.now()
    const runIds = held.map(({ run }) => run.runId)
    const renewed = await renewRuns(relational, { holder, runIds, leaseMs: times.leaseMs })
    const byId = new Map(renewed.map((one) => [one.runId, one]))
    for (const control of held) {
      const { runId, epoch } = control.run
      const lease = byId.get(runId)
      if (lease?.epoch !== epoch) control.stop('lease_lost')
      else if (lease.canceled) control.stop('canceled')
      else control.renewed(askedAt, times.leaseMs)
    }
  }

  /** Stops the runs that somebody canceled. */
  async stopCanceled(): Promise<void> {
    if (this.#running.size === 0) return
    const { relational, holder } = this.#host
    for (const runId of await canceledRuns(relational, holder)) this.#running.get(runId)?.stop('canceled')
  }

  /** Claims nothing more. */
  rest(): void {
    this.#stopped = true
  }

  /** Resolves when nothing runs any more. */
  async idle(): Promise<void> {
    while (this.#tasks.size > 0 || this.#claiming.size > 0) {
      await Promise.all(this.#tasks)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  /** Runs that have shown nothing wait again, the others end. */
  stop(): void {
    for (const control of this.#running.values()) control.stop('stopping')
  }
}
