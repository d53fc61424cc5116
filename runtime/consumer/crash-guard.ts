/**
 * Finds records whose handling ends the process: counted over restarts, then run isolated, then parked. Normal work
 * costs nothing: takeovers without progress are counted in the commit that each owner writes before its first call.
 */

import { killsMax, windowOffsets } from './limits.ts'
import type { Bookkeeping, SavedState } from './metadata.ts'

export class CrashGuard {
  /** The record that ended a process while it ran isolated: it is not run again. */
  readonly crashedIsolated: number | null
  readonly #position: number
  readonly #kills: number
  readonly #isolatedUntil: number
  #isolated: number | null = null
  /** Records of the suspicious stretch whose calls have ended here, whatever their outcome. */
  readonly #survivors = new Set<number>()

  /** `end` is the log's end at the takeover: an owner without work was not ended by a record. */
  constructor(position: number, end: number, saved: SavedState) {
    const interrupted = !saved.released && position < end
    this.#position = position
    this.#kills = interrupted ? saved.kills + 1 : 0
    this.crashedIsolated = interrupted ? saved.isolated : null
    this.#isolatedUntil = this.#kills >= killsMax ? position + windowOffsets : saved.isolatedUntil
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
