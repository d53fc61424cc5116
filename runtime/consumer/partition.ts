/** One partition in this process's hands: from gained, over reading, calling and committing, to lost, stopped or drained. */

import type { Logger } from 'pino'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { BatchRunner } from './batch-runner.ts'
import { Committer } from './committer.ts'
import { CrashGuard } from './crash-guard.ts'
import { LaneRunner } from './lane-runner.ts'
import { drainCommitMsMax, laneCommitRestMs, refreshAfterMs, staleAfterMs } from './limits.ts'
import { encodeMetadata } from './metadata.ts'
import { type Parked, park } from './parking.ts'
import type { GroupContext, Runner, RunnerHost } from './partition-host.ts'
import { misplacedReason, type Start, staleReason } from './position.ts'
import { Intake } from './record-buffer.ts'
import { Sieve } from './resume-state.ts'
import { persist } from './retry-until-done.ts'

const strayAlarmsMax = 10

export interface PartitionOptions {
  group: GroupContext
  id: number
  start: Extract<Start, { kind: 'start' }>
  /** The end of the log when the partition was gained. */
  end: number
  /** Resolves when no call of an owner before can be running any more. */
  formerDone: Promise<unknown>
}

export class Partition implements RunnerHost {
  readonly id: number
  readonly group: GroupContext
  readonly log: Logger
  readonly position: number
  readonly intake: Intake
  readonly sieve: Sieve
  readonly guard: CrashGuard
  readonly committer: Committer
  readonly runner: Runner
  readonly #gone = new AbortController()
  readonly #formerDone: Promise<unknown>
  /** Calls start after the commit that says so: the next owner must not take the former one's release for ours. */
  #opened: 'no' | 'soon' | 'yes' = 'no'
  readonly #ending = new AbortController()
  #wakeQueued = false
  #released = false
  #stopped: string | null = null
  #committed: number
  #progressedAtMs: number
  #readPosition: number
  /** Positions called misplaced although the log holds them, since the last records came. */
  #strayAlarms = 0
  #wakes: (() => void)[] = []

  constructor({ group, id, start, end, formerDone }: PartitionOptions) {
    this.group = group
    this.id = id
    this.log = group.log.child({ partition: id })
    this.position = start.position
    this.#committed = start.position
    this.#readPosition = start.readFrom
    this.#progressedAtMs = start.saved.progressedAtMs
    this.#formerDone = formerDone
    this.intake = new Intake({
      // The other half is for what is at work, or waits in lanes.
      bytesMax: () => group.shareBytes() / 2,
      pause: () => group.consumer.pause(id),
      resume: () => group.consumer.resume(id),
    })
    this.sieve = new Sieve(start.position, start.saved, group.topic.cleanup === 'delete', () => {
      group.metrics.repeats++
    })
    const blamed = group.options.blamesRecords === false ? { ...start.saved, released: true } : start.saved
    this.guard = new CrashGuard(start.position, end, blamed)
    this.committer = this.#createCommitter()
    const { options } = group
    this.runner = options.mode === 'batch' ? new BatchRunner(this, options) : new LaneRunner(this, options)
    if (group.gate.paused) this.intake.hold(true)
  }

  get gone(): AbortSignal {
    return this.#gone.signal
  }

  get ending(): AbortSignal {
    return this.#ending.signal
  }

  get over(): boolean {
    return this.#ending.signal.aborted
  }

  get stopped(): string | null {
    return this.#stopped
  }

  get committed(): number {
    return this.#committed
  }

  receive(records: StoredRecord[]): void {
    if (this.#gone.signal.aborted || records.length === 0) return
    const first = records[0]!.offset
    const fresh = first >= this.#readPosition ? 0 : firstFrom(records, this.#readPosition)
    this.#strayAlarms = 0
    this.runner.refill(fresh === 0 ? [] : records.slice(0, fresh), fresh < records.length)
    if (fresh < records.length) {
      this.#readPosition = records.at(-1)!.offset + 1
      this.intake.push(this.#withoutReadBack(fresh === 0 ? records : records.slice(fresh)))
    }
    // What else comes in this turn of the event loop joins the batch.
    if (!this.#wakeQueued) setImmediate(() => this.wake())
    this.#wakeQueued = true
  }

  /** Something changed that calls may have waited for. */
  wake(): void {
    this.#wakeQueued = false
    for (const resolve of this.#wakes.splice(0)) resolve()
    this.runner.pump()
  }

  mayCall(): boolean {
    if (this.over) return false
    if (this.#opened !== 'yes') {
      if (this.#opened === 'no') void this.#open()
      return false
    }
    const { consumer, exclusive, gate } = this.group
    return !exclusive.held && consumer.alive() && gate.enter()
  }

  async callable(): Promise<boolean> {
    while (!this.over) {
      if (this.mayCall()) return true
      await new Promise<void>((resolve) => this.#wakes.push(resolve))
    }
    return false
  }

  async park(parked: Parked[]): Promise<boolean> {
    const { options, topic, publisher } = this.group
    const { group, keptOf } = options
    return await park(parked, { group, topic, publisher, log: this.log, keptOf }, this.gone)
  }

  persist(what: string, attempt: () => Promise<unknown>): Promise<boolean> {
    return persist(what, attempt, this.gone, this.log)
  }

  readAgainFrom(offset: number): void {
    this.group.consumer.seek(this.id, offset)
    this.intake.urge(true)
  }

  readOn(): void {
    this.group.consumer.seek(this.id, this.#readPosition)
  }

  /** The log cannot be read on. A fetch from before a seek may say so of a position that is there: it is asked again. */
  misplaced(problem: { position: number; start: number; end: number }): void {
    if (this.#gone.signal.aborted) return
    const { position, start, end } = problem
    if (position >= start && position <= end && this.#strayAlarms++ < strayAlarmsMax) {
      this.group.consumer.seek(this.id, position)
    } else {
      this.stop(misplacedReason(problem))
    }
  }

  /** Now and then: keeps an idle position fresh, stops one that has been stuck for too long. */
  tick(nowMs: number): void {
    if (this.over) return
    const ageMs = nowMs - this.#progressedAtMs
    if (ageMs < refreshAfterMs) return
    if (this.#opened !== 'soon' && this.intake.count === 0 && this.runner.window() === 0) {
      this.#progressedAtMs = nowMs
      if (this.#opened === 'yes') this.committer.request()
      else void this.#open()
    } else if (this.group.topic.cleanup === 'compact' && ageMs > staleAfterMs) {
      this.stop(staleReason(ageMs))
    }
  }

  /** Another member has it, or will have: aborts its calls; their outcomes are discarded. */
  lose(): void {
    if (this.#gone.signal.aborted) return
    this.#ending.abort()
    this.#gone.abort()
    this.group.calls.abort(this.id)
    this.intake.clear()
    this.runner.stop()
    for (const resolve of this.#wakes.splice(0)) resolve()
  }

  /** It stands still until an operator has mended it and the group starts anew. */
  stop(why: string): void {
    this.#stopped = why
    this.lose()
    this.group.consumer.pause(this.id)
    this.log.error({ why }, 'partition stopped: it needs an operator')
  }

  /** No call starts any more; those that run may end; what they came to is committed, with the release. */
  async drain(): Promise<void> {
    if (this.#gone.signal.aborted) return
    this.#ending.abort()
    this.wake()
    await Promise.race([this.runner.idle(), sleep(this.group.options.callTimeoutMs)])
    if (this.runner.inFlight() > 0) {
      this.group.calls.abort(this.id)
      await Promise.race([this.runner.idle(), sleep(Math.min(1_000, this.group.options.callTimeoutMs))])
    }
    this.#released = !this.group.calls.running(this.id)
    // Without a call of its own, what the owner before left behind still holds.
    if (this.#opened === 'yes') await Promise.race([this.committer.flush(), sleep(drainCommitMsMax)])
    this.lose()
  }

  async #open(): Promise<void> {
    this.#opened = 'soon'
    await Promise.race([this.#formerDone, aborted(this.ending)])
    if (this.over || !(await this.committer.flush())) return
    this.#opened = 'yes'
    this.wake()
  }

  #createCommitter(): Committer {
    const { group, id } = this
    return new Committer({
      partition: id,
      position: this.position,
      consumer: group.consumer,
      log: this.log,
      pace: group.pace,
      // Of lanes many records settle one by one, and a commit becomes pressing in time.
      restMs: group.options.mode === 'lanes' ? laneCommitRestMs : 0,
      gone: this.gone,
      beforeCommit: group.options.beforeCommit?.bind(group.options),
      snapshot: () => this.#snapshot(),
      committed: (offset) => {
        this.#committed = offset
        this.runner.committed()
      },
      ripe: () => this.runner.ripe?.() ?? false,
      lost: () => this.lose(),
    })
  }

  #snapshot(): { offset: number; metadata: string } {
    const progress = this.runner.progress()
    if (progress.offset > this.#committed) this.#progressedAtMs = Date.now()
    const metadata = encodeMetadata(progress, {
      progressedAtMs: this.#progressedAtMs,
      released: this.#released,
      owner: this.group.token,
      ...this.guard.bookkeeping(progress.offset),
    })
    return { offset: progress.offset, metadata }
  }

  /** Records below the position only bring their event ids back, and what the service makes of them. */
  #withoutReadBack(records: StoredRecord[]): StoredRecord[] {
    if (records[0]!.offset >= this.position) return records
    const from = firstFrom(records, this.position)
    for (let at = 0; at < from; at++) {
      const record = records[at]!
      if (this.sieve.sift(record) === 'before') this.runner.passed?.(record)
    }
    return records.slice(from)
  }
}

/** Index of the first record at or beyond `offset`. */
function firstFrom(records: StoredRecord[], offset: number): number {
  const at = records.findIndex((record) => record.offset >= offset)
  return at < 0 ? records.length : at
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
