/** One partition that this member owns: from gained, over reading, calling and committing, to lost, stopped or drained. */

import { once } from 'node:events'
import type { Logger } from 'pino'
import type { GroupConsumer, Misplaced, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { retryUntilDone } from '../repeat.ts'
import { Committer } from './committer.ts'
import { type Parked, park } from './dead-letters.ts'
import { bufferedRecordsMax, refreshAfterMs, staleAfterMs } from './limits.ts'
import { encodeMetadata, ResumeState } from './metadata.ts'
import type { GroupContext, PartitionRunner } from './partition-host.ts'
import { CrashGuard, nobody, Reading, type Start, staleReason } from './position.ts'
import { RecordBuffer, type Shares } from './record-buffer.ts'

export interface PartitionOptions {
  group: GroupContext
  createRunner(partition: Partition): PartitionRunner
  consumer: GroupConsumer
  id: number
  start: Extract<Start, { kind: 'start' }>
  /** The end of the log when the partition was gained. */
  end: number
  /** Resolves when no call runs any more that this member made when it had the partition before. */
  ownCalls: Promise<void> | undefined
}

export class Partition {
  readonly id: number
  readonly group: GroupContext
  readonly position: number
  readonly buffer: RecordBuffer
  readonly resumeState: ResumeState
  readonly guard: CrashGuard
  readonly committer: Committer
  readonly runner: PartitionRunner
  readonly #consumer: GroupConsumer
  readonly #log: Logger
  readonly #gone = new AbortController()
  readonly #lost = new AbortController()
  readonly #ending = new AbortController()
  /** Aborts when the partition is lost, stopped or closed: outcomes are discarded from then on. */
  readonly gone = this.#gone.signal
  /** Aborts when calls of the partition must end: it is lost, or its drain takes too long. */
  readonly lost = this.#lost.signal
  /** Aborts when no new call may start any more: at a drain, or when the partition is gone. */
  readonly ending = this.#ending.signal
  readonly #ownCalls: Promise<void> | undefined
  /** The owner before, where it matters whether it died in its work. */
  readonly #suspect: number | null
  /** Calls start after the commit that says so: the next owner must not take the former one's release for ours. */
  #opened: 'no' | 'soon' | 'yes' = 'no'
  #wakeQueued = false
  #released = false
  /** Why nothing is done here any more. */
  stopped: string | null = null
  committed: number
  #progressedAtMs: number
  readonly #reading: Reading
  #callWaiters: (() => void)[] = []

  constructor({ group, createRunner, consumer, id, start, end, ownCalls }: PartitionOptions) {
    this.group = group
    this.id = id
    this.#consumer = consumer
    this.#log = group.log.child({ partition: id })
    this.position = start.position
    this.committed = start.position
    this.#reading = new Reading(start, group.options.adviceIfStale)
    this.#progressedAtMs = start.saved.progressedAtMs
    this.#ownCalls = ownCalls
    this.buffer = new RecordBuffer({
      // The rest is for records in calls, or pending in lanes.
      bytesMax: () => group.shareBytes() * group.bufferPart,
      recordsMax: group.options.aheadRecordsMax ?? bufferedRecordsMax,
      rests: () => group.gathering.isOn,
      pause: () => consumer.pause(id),
      resume: () => consumer.resume(id),
    })
    this.resumeState = new ResumeState(start.position, start.saved, {
      memory: group.options.topic.cleanup === 'delete' ? group.bookkeeping : null,
      onRepeat: () => {
        group.metrics.repeats++
      },
    })
    this.guard = new CrashGuard(start.position, start.saved)
    const { released, owner } = start.saved
    const suspicious = group.blamesRecords && !released && owner !== nobody && start.position < end
    this.#suspect = suspicious ? owner : null
    this.committer = this.#createCommitter()
    this.runner = createRunner(this)
    if (group.breaker.paused) this.buffer.setStopped(true)
  }

  /** When the oldest record in memory was appended that is not settled, in milliseconds; null when there is none. */
  get oldestAtMs(): number | null {
    return this.runner.oldest() ?? this.buffer.peek()?.timestamp ?? null
  }

  /** Nothing waits, and nothing is under way. */
  get atRest(): boolean {
    return this.#opened !== 'soon' && this.buffer.count === 0 && this.runner.window() === 0
  }

  receive(records: StoredRecord[]): void {
    if (this.gone.aborted || records.length === 0) return
    const judged = this.#reading.judge(records, Date.now())
    if (judged && 'stop' in judged) {
      this.stop(judged.stop)
      return
    }
    if (judged) this.#progressedAtMs = judged.writtenAtMs
    const { back, fresh } = this.#reading.take(records)
    // They bring back their event ids and what the handler makes of them, and no more.
    for (const record of back) {
      if (this.resumeState.classify(record) === 'below') this.runner.settledBefore?.(record)
    }
    this.buffer.push(fresh)
    // What else comes in this turn of the event loop joins the batch.
    if (!this.#wakeQueued) setImmediate(() => this.pump())
    this.#wakeQueued = true
  }

  /** Something changed that calls may have waited for. */
  pump(): void {
    this.#wakeQueued = false
    for (const resolve of this.#callWaiters.splice(0)) resolve()
    this.runner.pump()
  }

  /** True when no call of an earlier term runs here and the former owner's fate is known; the first question finds out. */
  open(): boolean {
    if (this.#opened === 'no') void this.#open()
    return this.#opened === 'yes'
  }

  /** True when a call may start now. */
  mayCall(): boolean {
    if (this.ending.aborted) return false
    const { exclusive, breaker } = this.group
    return this.open() && !exclusive.held && this.#consumer.alive() && breaker.allowsCalls
  }

  /** Resolves with true when `mayCall` said yes, with false when no call will start any more. */
  async whenMayCall(): Promise<boolean> {
    while (!this.ending.aborted) {
      if (this.mayCall()) return true
      await new Promise<void>((resolve) => this.#callWaiters.push(resolve))
    }
    return false
  }

  /** Writes dead letters; true when they are durable, false when the partition is gone. */
  async park(parked: Parked[]): Promise<boolean> {
    const { options, publisher } = this.group
    const { group, topic, keptOf } = options
    return await park(parked, { group, topic, publisher, log: this.#log, keptOf }, this.gone)
  }

  /** Repeats until it succeeds; false when the partition is gone before. */
  retryUntilDone(what: string, attempt: () => Promise<unknown>): Promise<boolean> {
    return retryUntilDone(what, attempt, this.gone, this.#log)
  }

  /**
   * Runs the work on one suspicious record while nothing else of the member runs: if the process ends, that record ended it.
   * Announced by a commit and cleared by another. Null when the partition came to its end before it began.
   */
  async runIsolated<T>(offset: number, work: () => Promise<T>): Promise<T | null> {
    const { group, guard, committer } = this
    // A decoding that had to wait lets others in between.
    while (group.exclusive.held) if (!(await this.whenMayCall())) return null
    group.exclusive.held = true
    try {
      await group.calls.idle()
      guard.announce(offset)
      if (!(await committer.flush()) || this.ending.aborted) return null
      const result = await work()
      guard.callEnded(offset)
      await committer.flush()
      return result
    } finally {
      guard.announce(null)
      group.exclusive.held = false
      group.wakeAll()
    }
  }

  /** The log cannot be read on. */
  misplaced(problem: Misplaced): void {
    if (this.gone.aborted) return
    const next = this.#reading.misplaced(problem)
    if (typeof next === 'number') this.#consumer.seek(this.id, next)
    else this.stop(next)
  }

  /** Now and then: keeps an idle position fresh, stops one that has been stuck for too long. */
  tick(nowMs: number, shares: Shares): void {
    if (this.ending.aborted) return
    this.buffer.copyOut(shares)
    this.runner.copyOut(shares)
    const ageMs = nowMs - this.#progressedAtMs
    if (ageMs < refreshAfterMs || this.#reading.doubtful) return
    if (this.atRest) {
      this.#progressedAtMs = nowMs
      if (this.#opened === 'yes') this.committer.commitSoon()
      else void this.#open()
    } else if (this.group.options.topic.cleanup === 'compact' && ageMs > staleAfterMs) {
      this.stop(staleReason(ageMs, this.group.options.adviceIfStale))
    }
  }

  /** Another member has it, or will have: aborts its calls; their outcomes are discarded. */
  lose(): void {
    if (this.gone.aborted) return
    this.#ending.abort()
    this.#gone.abort()
    this.#abortCalls()
    this.buffer.clear()
    this.resumeState.close()
    this.runner.stop()
    for (const resolve of this.#callWaiters.splice(0)) resolve()
  }

  /** Nothing is done here until an operator has mended it and the group starts again. */
  stop(why: string): void {
    this.stopped = why
    this.lose()
    this.#consumer.pause(this.id)
    this.#log.error({ why }, 'consumer.partition-stopped')
  }

  /** No call starts any more; those that run may end for `callsMs`; their outcomes are committed, with the release. */
  async drain(callsMs: number): Promise<void> {
    if (this.gone.aborted) return
    const { calls } = this.group
    const { abortedCallsMs, lastCommitMs } = deadlines.stop
    this.#ending.abort()
    this.pump()
    await Promise.race([this.runner.idle(), sleep(callsMs)])
    if (this.runner.inFlight() > 0) {
      this.#abortCalls()
      await Promise.race([this.runner.idle(), sleep(abortedCallsMs)])
    }
    this.#released = !calls.running(this.id)
    // Without a call of its own, what the owner before committed still holds.
    if (this.#opened === 'yes') await Promise.race([this.committer.flush(), sleep(lastCommitMs)])
    this.lose()
  }

  async #open(): Promise<void> {
    this.#opened = 'soon'
    await Promise.race([this.#ownCalls, once(this.ending, 'abort')])
    if (this.#suspect !== null && (await this.group.hasDied(this.#suspect))) this.guard.formerDied()
    if (this.ending.aborted || !(await this.committer.flush())) return
    this.#opened = 'yes'
    this.pump()
  }

  #abortCalls(): void {
    this.#lost.abort()
    this.group.calls.abort(this.id)
  }

  #createCommitter(): Committer {
    const { group, id } = this
    return new Committer({
      partition: id,
      position: this.position,
      consumer: this.#consumer,
      log: this.#log,
      gone: this.gone,
      hurries: group.hurries,
      rests: group.rests,
      beforeCommit: group.options.beforeCommit?.bind(group.options),
      snapshot: () => this.#snapshot(),
      onCommitted: (offset) => {
        this.committed = offset
        this.runner.pump()
      },
      onLost: () => this.lose(),
    })
  }

  #snapshot(): { offset: number; metadata: string } {
    const progress = this.runner.progress()
    if (progress.offset > this.committed) this.#progressedAtMs = Date.now()
    const metadata = encodeMetadata(progress, {
      progressedAtMs: this.#progressedAtMs,
      released: this.#released,
      owner: this.ending.aborted ? nobody : this.group.token,
      ...this.guard.bookkeeping(progress.offset),
    })
    return { offset: progress.offset, metadata }
  }
}
