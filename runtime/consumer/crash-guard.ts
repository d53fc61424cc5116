/**
 * Records whose handling ends the process: counted over restarts, then run alone, then parked. The ordinary way pays
 * nothing: takeovers without progress are counted in the commit that each owner writes before its first call.
 */

import { killsMax, windowOffsets } from './limits.ts'
import type { Bookkeeping, SavedState } from './metadata.ts'

export class CrashGuard {
  /** The record that ended a process although it ran alone: it is not run again. */
  readonly doomed: number | null
  readonly #position: number
  readonly #kills: number
  readonly #aloneUntil: number
  #started: number | null = null
  /** Records of the suspicious stretch whose calls have ended here, whatever their outcome. */
  readonly #survivors = new Set<number>()

  /** `end` is the log's end at the takeover: an owner without work was not ended by a record. */
  constructor(position: number, end: number, saved: SavedState) {
    const interrupted = !saved.released && position < end
    this.#position = position
    this.#kills = interrupted ? saved.kills + 1 : 0
    this.doomed = interrupted ? saved.started : null
    this.#aloneUntil = this.#kills >= killsMax ? position + windowOffsets : saved.aloneUntil
  }

  /** True when a record has to run alone, announced by a commit. */
  alone(offset: number): boolean {
    return offset < this.#aloneUntil && !this.#survivors.has(offset)
  }

  /** The call of a record that ran alone has ended. */
  survived(offset: number): void {
    this.#survivors.add(offset)
    this.#started = null
  }

  /** The record that the next commit announces; null when its call has ended. */
  announce(offset: number | null): void {
    this.#started = offset
  }

  bookkeeping(offset: number): Pick<Bookkeeping, 'kills' | 'aloneUntil' | 'started'> {
    return {
      kills: offset === this.#position ? this.#kills : 0,
      aloneUntil: offset < this.#aloneUntil ? this.#aloneUntil : 0,
      started: this.#started,
    }
  }
}

export const doomedReason = `its handling ended the process ${killsMax + 1} times, the last time while it ran alone`
