/**
 * Finds records whose handling ends the process: deaths of owners are counted in the commit that each owner writes before
 * its first call; then records run isolated, announced by a commit; the one that ends the process then is parked.
 *
 * A commit names its owner in 32 bits: the upper half its process, the lower half the member. By the processes that the
 * group still has, a successor tells an owner that died from one that only lost the partition.
 */

import { randomInt } from 'node:crypto'
import type { Groups } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { murmur2 } from '#lib/murmur2.ts'
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

/** Where nobody has the partition, or its owner has left by itself. */
export const nobody = 0

const half = 2 ** 16
const askMsMax = 5_000

/** A name for a new member of this process. */
export function nameOwner(clientId: string): number {
  return halfOf(clientId) * half + randomInt(1, half)
}

/**
 * True when the group has no member of that owner's process any more. In doubt false: an answer that does not name this
 * process, which is a member, says nothing about others.
 */
export async function hasDied(
  owner: number,
  group: { eventLog: Groups; name: string; topic: string },
): Promise<boolean> {
  const { eventLog, name, topic } = group
  try {
    const late = () => new Error('no answer in time')
    const { clientIds } = await withTimeout(eventLog.groupState(name, topic), askMsMax, late)
    const present = clientIds.map(halfOf)
    return present.includes(halfOf(eventLog.clientId)) && !present.includes(Math.floor(owner / half))
  } catch {
    return false
  }
}

function halfOf(clientId: string): number {
  return (murmur2(Buffer.from(clientId)) >>> 0) % half
}
