/**
 * Commits the progress of one partition: one commit at a time, each with the newest state, after `beforeCommit`. It
 * keeps the one promise about commits: few a second, and a kill repeats no more than records in flight and those
 * settled in the last moments. What `beforeCommit` has made known is not repeated either, so its commits are fewer.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { GroupConsumer } from '#engines/event-log/port.ts'
import { backoffMs, sleep, timeBehind, timerErrorMs } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { retryUntilDone } from '../repeat.ts'
import { commitEveryMs, knownCommitEveryMs } from './limits.ts'

interface CommitterOptions {
  partition: number
  position: number
  consumer: GroupConsumer
  log: Logger
  /** Aborts when nothing of this partition may be committed any more. */
  gone: AbortSignal
  /** Every commit is made as if somebody waited for it. */
  hurries: boolean
  rests: SharedRests
  beforeCommit: ((partition: number, throughOffset: number) => Promise<void>) | undefined
  /** The offset and metadata to commit now. */
  snapshot(): { offset: number; metadata: string }
  onCommitted(offset: number): void
  onLost(): void
}

const again = { baseMs: 40, maxMs: 1_000 }
/** Rests of the partitions of a group. Those up to one time end in one turn of the event loop, so that their requests are shared. */
export class SharedRests {
  readonly #ends = new Map<number, Promise<void>>()

  until(at: number): Promise<void> {
    const known = this.#ends.get(at)
    if (known) return known
    const end = Promise.withResolvers<void>()
    const over = () => {
      this.#ends.delete(at)
      end.resolve()
    }
    setTimeout(over, Math.max(0, Math.ceil(at - performance.now()))).unref()
    this.#ends.set(at, end.promise)
    return end.promise
  }
}

export class Committer {
  readonly #options: CommitterOptions
  /** Counts the states that somebody wants committed; #written is the newest of them that is, #known that is made known. */
  #wanted = 0
  #known = 0
  #written = 0
  /** `beforeCommit` was called for what lies before it. */
  #announced: number
  #running = false
  /** Somebody waits for a settled record. */
  #awaited = false
  #begunAt = Number.NEGATIVE_INFINITY
  /** When that which is made known and not committed shall be. */
  #dueAt = Number.POSITIVE_INFINITY
  /** When settled records must be committed at the latest: in the commit in flight, and behind it. */
  #carriedBy = Number.POSITIVE_INFINITY
  #settledBy = Number.POSITIVE_INFINITY
  #rest = Promise.withResolvers<void>()
  /** The rest ends as soon as more is wanted. */
  #restsForMore = false
  #waiters: { version: number; resolve(written: boolean): void }[] = []

  constructor(options: CommitterOptions) {
    this.#options = options
    this.#announced = options.position
    const end = () => {
      this.#endRest()
      this.#answer()
    }
    options.gone.addEventListener('abort', end, { once: true })
  }

  /** True when nothing more should be begun before a commit is through: it would be repeated after a kill. */
  get behind(): boolean {
    const by = Math.min(this.#carriedBy, this.#settledBy)
    return by !== Number.POSITIVE_INFINITY && performance.now() > by
  }

  /** Records were settled; `awaited`: somebody waits for one of them. */
  settled(awaited = false): void {
    if (this.#settledBy === Number.POSITIVE_INFINITY) {
      this.#settledBy = performance.now() + 3 * this.#everyMs
    }
    this.commitSoon()
    if (!awaited || this.#awaited) return
    this.#awaited = true
    this.#endRest()
  }

  /** The present state is worth a commit; soon, and together with changes in this turn of the event loop. */
  commitSoon(): void {
    this.#wanted++
    if (this.#restsForMore) this.#endRest()
    if (this.#running || this.#options.gone.aborted) return
    this.#running = true
    void this.#run()
  }

  /** Commits without delay; true when the present state, or a newer one, is committed; false when the partition was lost before. */
  flush(): Promise<boolean> {
    if (this.#options.gone.aborted) return Promise.resolve(false)
    const version = this.#wanted + 1
    const written = new Promise<boolean>((resolve) => this.#waiters.push({ version, resolve }))
    this.commitSoon()
    this.#endRest()
    return written
  }

  async #run(): Promise<void> {
    const { gone } = this.#options
    while (this.#written < this.#wanted && !gone.aborted) {
      if (this.#waiters.length === 0) await this.#untilNextTime()
      const version = this.#wanted
      this.#awaited = false
      this.#begunAt = performance.now()
      this.#carriedBy = Math.min(this.#carriedBy, this.#settledBy)
      this.#settledBy = Number.POSITIVE_INFINITY
      const state = this.#options.snapshot()
      if (await this.#makeKnown(state.offset)) {
        this.#known = version
        this.#dueAt = Math.min(this.#dueAt, timeBehind(performance.now(), knownCommitEveryMs))
      }
      if (this.#isDue() && (await this.#commit(state))) this.#written = version
      this.#answer()
    }
    this.#running = false
  }

  get #hurries(): boolean {
    return this.#options.hurries || this.#awaited
  }

  get #everyMs(): number {
    return this.#hurries ? commitEveryMs.hurried : commitEveryMs.otherwise
  }

  /** At the next of the times that all partitions share: so they share requests, too. In a hurry the first goes at once. */
  async #untilNextTime(): Promise<void> {
    if (this.#known === this.#wanted && !this.#isDue()) {
      this.#restsForMore = true
      await this.#restUntil(this.#dueAt)
      if (this.#known === this.#wanted) return
    }
    for (;;) {
      if (this.#waiters.length > 0 || this.#options.gone.aborted) return
      const hurried = this.#hurries
      const now = performance.now()
      const isFirst = now - this.#begunAt >= this.#everyMs
      if (isFirst && hurried) return nextTurn()
      await this.#restUntil(timeBehind(isFirst ? now : this.#begunAt + timerErrorMs, this.#everyMs))
      // Somebody who began to wait has ended the rest.
      if (hurried === this.#hurries) return
    }
  }

  async #restUntil(at: number): Promise<void> {
    this.#rest = Promise.withResolvers()
    await Promise.race([this.#options.rests.until(at), this.#rest.promise])
    this.#restsForMore = false
  }

  #endRest(): void {
    this.#restsForMore = false
    this.#rest.resolve()
  }

  #isDue(): boolean {
    if (!this.#options.beforeCommit || this.#waiters.length > 0) return true
    return performance.now() + timerErrorMs >= this.#dueAt
  }

  /** False when nothing was made known: there is no `beforeCommit`, or the partition is gone. */
  async #makeKnown(offset: number): Promise<boolean> {
    const { partition, log, gone, beforeCommit } = this.#options
    if (!beforeCommit) return false
    if (offset > this.#announced) {
      const announce = () => beforeCommit(partition, offset - 1)
      if (!(await retryUntilDone('beforeCommit', announce, gone, log))) return false
      this.#announced = offset
    }
    this.#carriedBy = Number.POSITIVE_INFINITY
    return true
  }

  async #commit({ offset, metadata }: { offset: number; metadata: string }): Promise<boolean> {
    const { partition, consumer, log, gone } = this.#options
    this.#dueAt = Number.POSITIVE_INFINITY
    for (let n = 0; !gone.aborted; n++) {
      try {
        const result = await consumer.commit(partition, offset, metadata)
        if (result === 'lost') {
          this.#options.onLost()
          return false
        }
        if (result === 'committed') {
          this.#carriedBy = Number.POSITIVE_INFINITY
          this.#options.onCommitted(offset)
          return true
        }
      } catch (error) {
        log.warn({ err: describeError(error) }, 'consumer.commit-failing')
      }
      await sleep(backoffMs(n, again), gone)
    }
    return false
  }

  #answer(): void {
    const gone = this.#options.gone.aborted
    this.#waiters = this.#waiters.filter(({ version, resolve }) => {
      const written = version <= this.#written
      if (written || gone) resolve(written)
      return !written && !gone
    })
  }
}
