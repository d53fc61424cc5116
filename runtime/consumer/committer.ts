/** Commits the progress of one partition: one commit at a time, each with the newest state, after `beforeCommit`. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { GroupConsumer } from '#engines/event-log/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { commitsPerSecondMax } from './limits.ts'
import { retryUntilDone } from './retry-until-done.ts'

export interface CommitterOptions {
  partition: number
  position: number
  consumer: GroupConsumer
  log: Logger
  pace: CommitPace
  /** Least time between two commits of the partition while none is urgent, ms. */
  restMs: number
  /** Aborts when nothing of this partition may be committed any more. */
  gone: AbortSignal
  beforeCommit: ((partition: number, throughOffset: number) => Promise<void>) | undefined
  /** What is to be committed now. */
  snapshot(): { offset: number; metadata: string }
  /** True when a commit would carry anything: it then goes together with an urgent one of another partition. */
  hasUncommitted(): boolean
  onCommitted(offset: number): void
  onLost(): void
}

const again = { baseMs: 40, maxMs: 1_000 }

export class Committer {
  readonly #options: CommitterOptions
  /** Counts the states that somebody wants committed; #written is the newest of them that is. */
  #wanted = 0
  #written = 0
  #urgent = false
  /** `beforeCommit` was called for what lies before it. */
  #announced: number
  #running = false
  #restUntil = 0
  #endWait: () => void = () => {}
  #waiters: { version: number; resolve(written: boolean): void }[] = []

  constructor(options: CommitterOptions) {
    this.#options = options
    this.#announced = options.position
    const end = () => {
      this.#endWait()
      this.#answer()
    }
    options.gone.addEventListener('abort', end, { once: true })
  }

  /** The present state is worth a commit; soon, and together with what follows in this turn of the event loop. */
  commitSoon(): void {
    this.#wanted++
    this.#start()
  }

  /** The present state is to be committed without delay. */
  commitNow(): void {
    this.#wanted++
    if (this.#urgent) return
    this.#urgent = true
    this.#options.pace.endWaits()
    this.#endWait()
    this.#start()
  }

  /** True when the present state, or a newer one, is committed; false when the partition was lost before. */
  flush(): Promise<boolean> {
    if (this.#options.gone.aborted) return Promise.resolve(false)
    const version = this.#wanted + 1
    const written = new Promise<boolean>((resolve) => this.#waiters.push({ version, resolve }))
    this.commitNow()
    return written
  }

  #start(): void {
    if (this.#running || this.#options.gone.aborted) return
    this.#running = true
    void this.#run()
  }

  async #run(): Promise<void> {
    const { gone, pace, restMs } = this.#options
    while (this.#written < this.#wanted && !gone.aborted) {
      if (!this.#urgent) {
        const waitMs = pace.reserve(this.#restUntil)
        await (waitMs > 0 ? this.#wait(waitMs) : nextTurn())
      }
      this.#urgent = false
      const version = this.#wanted
      this.#restUntil = performance.now() + restMs
      if (await this.#commit()) this.#written = version
      this.#answer()
    }
    this.#running = false
  }

  async #commit(): Promise<boolean> {
    const { partition, consumer, log, gone, beforeCommit } = this.#options
    const { offset, metadata } = this.#options.snapshot()
    if (beforeCommit && offset > this.#announced) {
      const announced = await retryUntilDone(
        'beforeCommit',
        () => beforeCommit(partition, offset - 1),
        gone,
        log,
      )
      if (!announced) return false
      this.#announced = offset
    }
    for (let n = 0; !gone.aborted; n++) {
      try {
        const result = await consumer.commit(partition, offset, metadata)
        if (result === 'lost') {
          this.#options.onLost()
          return false
        }
        if (result === 'committed') {
          this.#options.onCommitted(offset)
          return true
        }
      } catch (error) {
        log.warn({ err: describeError(error) }, 'commit failed; it is tried again')
      }
      await sleep(backoffMs(n, again), gone)
    }
    return false
  }

  /** Ends early when a commit becomes urgent or impossible. */
  #wait(ms: number): Promise<void> {
    const { pace, hasUncommitted } = this.#options
    return new Promise((resolve) => {
      const end = () => {
        if (!pace.waiting.delete(join)) return
        clearTimeout(timer)
        pace.giveBack()
        resolve()
      }
      const join = () => {
        if (hasUncommitted()) end()
      }
      const timer = setTimeout(() => {
        pace.waiting.delete(join)
        resolve()
      }, ms)
      pace.waiting.add(join)
      this.#endWait = end
    })
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

/** Spreads the commits of a group: at once while they are few, evenly when they would be too many. */
export class CommitPace {
  #nextAt = 0
  readonly #spacingMs = 1_000 / commitsPerSecondMax
  readonly #burstMs = 50
  /** Commits that wait for their time, and may go sooner. */
  readonly waiting = new Set<() => void>()

  /** A commit is urgent: those that go with it cost next to nothing, and become urgent later. */
  endWaits(): void {
    for (const join of [...this.waiting]) join()
  }

  /** How long the next commit has to wait, ms; it is wanted `fromMs` at the earliest, by the clock of performance.now. */
  reserve(fromMs: number): number {
    const now = performance.now()
    const at = Math.max(this.#nextAt, now - this.#burstMs)
    this.#nextAt = at + this.#spacingMs
    return Math.max(0, Math.max(at, fromMs) - now)
  }

  /** A commit did not wait for its time: others may have it. */
  giveBack(): void {
    this.#nextAt -= this.#spacingMs
  }
}
