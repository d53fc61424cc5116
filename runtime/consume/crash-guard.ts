/**
 * Finds records whose handling ends the process: deaths of owners are counted in the commit that each owner writes before
 * its first call; then records run isolated, announced by a commit; the one that ends the process then is parked.
 */

import { killsMax, windowOffsets } from './limits.ts'
import type { Bookkeeping, SavedState } from './metadata.ts'

export class CrashGuard {
  readonly #position: number
  readonly #announced: number | null
  #kills: number
  #isolatedUntil: number
  #crashedIsolated: number | null = null
  #isolated: number | null = null
  /** Records of the suspicious stretch whose calls have ended here, whatever their outcome. */
  readonly #survivors = new Set<number>()

  constructor(position: number, saved: SavedState) {
    this.#position = position
    this.#announced = saved.isolated
    this.#kills = saved.kills
    this.#isolatedUntil = saved.isolatedUntil
  }

  /** The record that ended a process while it ran isolated: it is not run again. */
  get crashedIsolated(): number | null {
    return this.#crashedIsolated
  }

  /** The process of the owner before has ended while it had work; to be called before the first record runs. */
  formerDied(): void {
    this.#kills++
    this.#crashedIsolated = this.#announced
    if (this.#kills >= killsMax) this.#isolatedUntil = this.#position + windowOffsets
  }

  /** True when a record has to run isolated, announced by a commit. */
  mustRunIsolated(offset: number): boolean {
    return offset < this.#isolatedUntil && !this.#survivors.has(offset)
  }

  /** The call of a record that ran isolated has ended, and the process has not. */
  callEnded(offset: number): void {
    this.#survivors.add(offset)
    this.#isolated = null
  }

  /** The record that the next commit announces; null when its call has ended. */
  announce(offset: number | null): void {
    this.#isolated = offset
  }

  bookkeeping(offset: number): Pick<Bookkeeping, 'kills' | 'isolatedUntil' | 'isolated'> {
    return {
      kills: offset === this.#position ? this.#kills : 0,
      isolatedUntil: offset < this.#isolatedUntil ? this.#isolatedUntil : 0,
      isolated: this.#isolated,
    }
  }
}

export const crashedReason = `its handling ended the process ${killsMax + 1} times, the last time while it ran alone`
