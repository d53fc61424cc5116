/** Writes the progress of one partition: beforeCommit, then the commit, one at a time, the newest state each time. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { GroupConsumer } from '#engines/event-log/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { commitsPerSecondMax } from './limits.ts'
import { persist } from './retry-until-done.ts'

export interface CommitterOptions {
  partition: number
  position: number
  consumer: GroupConsumer
  log: Logger
  pace: CommitPace
  /** Two commits of the partition are at least so far apart while none is pressing. */
  restMs: number
  /** Aborts when nothing of this partition may be committed any more. */
  gone: AbortSignal
  beforeCommit: ((partition: number, throughOffset: number) => Promise<void>) | undefined
  /** What is to be committed now. */
  snapshot(): { offset: number; metadata: string }
  committed(offset: number): void
  /** True when it may go together with a pressing one of another partition. */
  ripe(): boolean
  lost(): void
}

const again = { baseMs: 40, maxMs: 1_000 }

export class Committer {
  readonly #options: CommitterOptions
  /** Counts the states that somebody wants committed; #written is the newest of them that is. */
  #wanted = 0
  #written = 0
  #urgent = false
  #told: number
  #running = false
  #restUntil = 0
  #endPause: () => void = () => {}
  #waiters: { version: number; resolve(written: boolean): void }[] = []

  constructor(options: CommitterOptions) {
    this.#options = options
    this.#told = options.position
    const end = () => {
      this.#endPause()
      this.#answer()
    }
    options.gone.addEventListener('abort', end, { once: true })
  }

  /** The present state is worth a commit; soon, and together with what follows in this turn of the event loop. */
  request(): void {
    this.#wanted++
    this.#start()
  }

  /** The present state is to be committed without delay. */
  hurry(): void {
    this.#wanted++
    if (this.#urgent) return
    this.#urgent = true
    this.#options.pace.together()
    this.#endPause()
    this.#start()
  }

  /** True when the present state, or a newer one, is committed; false when the partition was lost before. */
  flush(): Promise<boolean> {
    if (this.#options.gone.aborted) return Promise.resolve(false)
    const version = this.#wanted + 1
    const written = new Promise<boolean>((resolve) => this.#waiters.push({ version, resolve }))
    this.hurry()
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
        const waitMs = pace.take(this.#restUntil)
        await (waitMs > 0 ? this.#pause(waitMs) : nextTurn())
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
    if (beforeCommit && offset > this.#told) {
      const told = await persist('beforeCommit', () => beforeCommit(partition, offset - 1), gone, log)
      if (!told) return false
      this.#told = offset
    }
    for (let n = 0; !gone.aborted; n++) {
      try {
        const result = await consumer.commit(partition, offset, metadata)
        if (result === 'lost') {
          this.#options.lost()
          return false
        }
        if (result === 'committed') {
          this.#options.committed(offset)
          return true
        }
      } catch (error) {
        log.warn({ err: describeError(error) }, 'commit failed; it is tried again')
      }
      await sleep(backoffMs(n, again), gone)
    }
    return false
  }

  /** Ends early when a commit becomes pressing or impossible. */
  #pause(ms: number): Promise<void> {
    const { pace, ripe } = this.#options
    return new Promise((resolve) => {
      const end = () => {
        if (!pace.pausing.delete(join)) return
        clearTimeout(timer)
        pace.giveBack()
        resolve()
      }
      const join = () => {
        if (ripe()) end()
      }
      const timer = setTimeout(() => {
        pace.pausing.delete(join)
        resolve()
      }, ms)
      pace.pausing.add(join)
      this.#endPause = end
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
  readonly pausing = new Set<() => void>()

  /** A commit is pressing: those that go with it cost next to nothing, and press later. */
  together(): void {
    for (const join of [...this.pausing]) join()
  }

  /** How long the next commit has to wait, ms; it is wanted `fromMs` at the earliest, by the clock of performance.now. */
  take(fromMs: number): number {
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
