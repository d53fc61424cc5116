/** What the parts of the dispatcher work with: its host, its limits, and the runs that it holds. */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { isUnavailable } from '#lib/errors.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { NodeCalls, NodeSet } from '../nodes/nodes.ts'
import type { EndedRun, HeldEnd } from '../state/end.ts'
import type { EventOfRun, StoredPosition } from '../state/events.ts'
import type { ClaimedRun } from '../state/types.ts'
import type { RunNews } from './news.ts'

export interface DispatcherParts extends NodeCalls {
  relational: Relational
  log: Logger
  /** Name of this process in the rows. */
  holder: string
  nodes(): NodeSet
  news: RunNews
  /** Records were written that the outbox-publisher is to publish. */
  ringOutbox(): void
  times: RunTimes
  tracing?: Tracing | undefined
  /** Hears of every run that ended here. */
  onEnded?(run: EndedRun): void
  /** How long `close` lets runs go on; asked when it begins. */
  drainMs(): number
  retentionDays: number
  /** How long a run waits for the answer to its question, in seconds. */
  inputWaitS: number
  /** Hears of every run that asks. */
  onAsked?(run: ClaimedRun): void
}

/** A report to AXON. */
export interface Report {
  /** The id of the run that it is about. */
  reportId: string
  agent: string
  status: string
  [key: string]: unknown
}

/** What a run of this dispatcher may ask of it. */
export interface RunHost extends DispatcherParts {
  /** As `storeEvent`, `endRuns` and `readReport` for the runs that this dispatcher holds. */
  storeEvent(event: EventOfRun): Promise<StoredPosition | null>
  endRun(end: HeldEnd): Promise<EndedRun | undefined>
  readReport(runId: string): Promise<Report | null>
  /** There is work: the sweep rests no longer. */
  busy(): void
  /** Runs may wait at this node. */
  wake(slug: string): void
  /** The run waits for an answer: its place at the node is free. */
  asked(run: ClaimedRun): void
  /** The end of runs is committed: publishes it, and goes on with what waited for it. */
  ended(runs: readonly EndedRun[]): Promise<void>
}

/** Why a run is stopped at its node. */
export type StopReason = 'canceled' | 'lease_lost' | 'timeout' | 'stopping'

export class RunStopped extends Error {
  readonly reason: StopReason

  constructor(reason: StopReason) {
    super(`The run is stopped: ${reason}.`)
    this.name = 'RunStopped'
    this.reason = reason
  }
}

/** The limits of a dispatcher, times in milliseconds. Tests use smaller ones. */
export const runTimes = {
  /** A dispatcher may work on a run for this long after it last renewed its lease. */
  leaseMs: 30_000,
  renewMs: 10_000,
  /** A dispatcher probes nodes and looks for runs for the first time so long after its start. */
  firstMs: 0,
  /** How often it looks for what nobody woke it for: while there are runs, and at rest. */
  sweepMs: 1_000,
  restMs: 1_000,
  /** A run waits this long while its node is away, or when its turn has come and there is a place. */
  startMs: 30_000,
  /** A run, whatever its node allows. */
  runMs: 300_000,
  synthesisMs: 60_000,
  /** After a node could not be reached. */
  retryMs: 1_000,
  probeMs: 5_000,
  probeRestMs: 15_000,
  /** Runs of one dispatcher at once. */
  runsMax: 1_000,
}

export type RunTimes = typeof runTimes

/** A run that this dispatcher works on: how long its lease certainly holds, and why it is stopped. */
export class RunControl {
  readonly run: ClaimedRun
  readonly #stop = new AbortController()
  #validUntil: number
  #expiry: NodeJS.Timeout
  #limit: NodeJS.Timeout

  /** `askedAt` is the `performance.now()` of before the lease was asked for. */
  constructor(run: ClaimedRun, askedAt: number, leaseMs: number, limitMs: number) {
    this.run = run
    this.#validUntil = askedAt + leaseMs
    this.#expiry = this.#expire()
    this.#limit = setTimeout(() => this.stop('timeout'), Math.max(0, limitMs))
  }

  /** Aborts with a RunStopped. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Milliseconds for which nobody else can have the run. */
  get leaseLeftMs(): number {
    return Math.max(0, this.#validUntil - performance.now())
  }

  renewed(askedAt: number, leaseMs: number): void {
    this.#validUntil = askedAt + leaseMs
    clearTimeout(this.#expiry)
    this.#expiry = this.#expire()
  }

  /** The first reason counts. */
  stop(reason: StopReason): void {
    if (!this.signal.aborted) this.#stop.abort(new RunStopped(reason))
  }

  close(): void {
    clearTimeout(this.#expiry)
    clearTimeout(this.#limit)
  }

  #expire(): NodeJS.Timeout {
    return setTimeout(() => this.stop('lease_lost'), this.leaseLeftMs)
  }
}

const backoff = { baseMs: 100, maxMs: 2_000 }

/** The statement must be one that does nothing the second time. Throws the last fault. */
export async function persist<T>(control: RunControl, statement: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await statement()
    } catch (error) {
      if (!isUnavailable(error) || control.leaseLeftMs === 0) throw error
      await sleep(Math.max(20, backoffMs(tries, backoff)))
    }
  }
}
