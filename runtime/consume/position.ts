/**
 * Decides where a gained partition is read and worked on, or why it must not be, and what a gap in the log means: nothing
 * is skipped or repeated silently.
 *
 * Finds records whose handling ends the process: deaths of owners are counted in the commit that each owner writes before
 * its first call; then records run isolated, announced by a commit; the one that ends the process then is parked. A commit
 * names its owner in 32 bits: the upper half its process, the lower half the member. By the processes that the group still
 * has, a successor tells an owner that died from one that only lost the partition.
 */

import { randomInt } from 'node:crypto'
import type { GainedPartition, Groups, Misplaced, StoredRecord } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { murmur2 } from '#lib/murmur2.ts'
import { killsMax, ringIdsMax, staleAfterMs, windowOffsets } from './limits.ts'
import { type Bookkeeping, decodeMetadata, emptyState, type SavedState } from './metadata.ts'

/** The group made no progress for so long that deletions may be gone, from this offset on. */
interface Doubt {
  offset: number
  ageMs: number
}

export type Start =
  | {
      kind: 'start'
      /** The first offset to work on. */
      position: number
      /** The first offset to read: lower where event ids are read back. */
      readFrom: number
      saved: SavedState
      /** The commit's metadata has a format of another version: only its position counts. */
      unknownFormat: boolean
      doubt: Doubt | null
    }
  | { kind: 'stop'; why: string; position: number }

/** `handedOver` is the position that the worker keeps itself; it wins. */
export function decideStart(
  gained: GainedPartition,
  handedOver: number | undefined,
  cleanup: 'delete' | 'compact',
  nowMs: number,
): Start {
  const { committed, start, end } = gained
  const position = handedOver ?? committed?.offset
  if (position === undefined) return { kind: 'stop', why: 'no committed position', position: start }
  // Compaction never removes what a position could need: a start below it is no loss there.
  if (position > end || (position < start && cleanup === 'delete')) {
    return { kind: 'stop', why: misplacedReason({ position, start, end }), position }
  }
  const decoded = committed ? decodeMetadata(committed.metadata, committed.offset) : emptyState()
  const saved = decoded ?? { ...emptyState(), released: false }
  if (handedOver !== undefined && handedOver !== committed?.offset) {
    saved.settled.clear()
    saved.attempts.clear()
  }
  // What lies below the commit was seen by the group, also where the worker's own position is older.
  const unseen = Math.max(position, committed?.offset ?? position)
  if (saved.progressedAtMs === 0 || unseen >= end) saved.progressedAtMs = nowMs
  const ageMs = nowMs - saved.progressedAtMs
  const doubt = cleanup === 'compact' && ageMs > staleAfterMs ? { offset: unseen, ageMs } : null
  const readFrom = cleanup === 'delete' ? Math.max(start, position - ringIdsMax) : position
  return { kind: 'start', position, readFrom, saved, unknownFormat: decoded === null, doubt }
}

function misplacedReason({ position, start, end }: Misplaced): string {
  return `position ${position} lies outside of the log (${start} to ${end}): records may be lost; set the position of the group`
}

/** `advice`: what an operator does about it. */
export function staleReason(ageMs: number, advice = 'rebuild what the group derives'): string {
  const days = Math.floor(ageMs / 86_400_000)
  return `nothing was committed for ${days} days while the partition grew: deletions may be missed; ${advice}`
}

const falseAlarmsMax = 10

/** Where a partition is read: sorts records by where work begins. */
export class Reading {
  /** Next to be read. */
  #position: number
  readonly #workFrom: number
  readonly #advice: string | undefined
  #doubt: Doubt | null
  /** Positions called misplaced although the log holds them, since the last records came. */
  #falseAlarms = 0

  constructor(start: Extract<Start, { kind: 'start' }>, advice?: string) {
    this.#advice = advice
    this.#position = start.readFrom
    this.#workFrom = start.position
    this.#doubt = start.doubt
  }

  /** True while it is not known yet whether deletions were missed. */
  get doubtful(): boolean {
    return this.#doubt !== null
  }

  /** `back` lie below the position where work begins. Earlier records are left out, whatever a log delivers after a seek. */
  take(records: StoredRecord[]): { back: StoredRecord[]; fresh: StoredRecord[] } {
    this.#falseAlarms = 0
    const from = firstFrom(records, this.#position)
    const workFrom = Math.max(from, firstFrom(records, this.#workFrom))
    this.#position = Math.max(this.#position, records.at(-1)!.offset + 1)
    if (workFrom === 0) return { back: [], fresh: records }
    return { back: records.slice(from, workFrom), fresh: records.slice(workFrom) }
  }

  /**
   * For a group that made no progress for long: why it must not go on, or when the first record was written that it has not
   * seen. Null: nothing is to be said.
   */
  judge(records: StoredRecord[], nowMs: number): { stop: string } | { writtenAtMs: number } | null {
    const doubt = this.#doubt
    const next = doubt && records.find((record) => record.offset >= doubt.offset && !record.hidden)
    if (!next) return null
    this.#doubt = null
    // Where it is young and nothing is missing before it, all that follows is younger: no deletion of it can be gone, the
    // group made no progress only because nothing happened.
    const isMissing = next.offset > doubt.offset || nowMs - next.timestamp > staleAfterMs
    return isMissing ? { stop: staleReason(doubt.ageMs, this.#advice) } : { writtenAtMs: next.timestamp }
  }

  /** The log cannot be read on: the offset to go on at, or why nothing may be read. */
  misplaced({ position, start, end }: Misplaced): number | string {
    // Records that are read back for their ids alone may expire meanwhile.
    if (position < start && start <= this.#workFrom) return start
    // A fetch from before a seek may say so of a position that is there: it is asked again.
    if (position >= start && position <= end && this.#falseAlarms++ < falseAlarmsMax) return position
    return misplacedReason({ position, start, end })
  }
}

/** Index of the first record at or beyond `offset`. */
function firstFrom(records: StoredRecord[], offset: number): number {
  if (records[0]!.offset >= offset) return 0
  const at = records.findIndex((record) => record.offset >= offset)
  return at < 0 ? records.length : at
}

export class CrashGuard {
  readonly #position: number
  readonly #announced: number | null
  #kills: number
  #isolatedUntil: number
  /** The record that ended a process while it ran isolated: it is not run again. */
  crashedIsolated: number | null = null
  #isolated: number | null = null
  /** Records of the suspicious stretch whose calls have ended here, whatever their outcome. */
  readonly #survivors = new Set<number>()

  constructor(position: number, saved: SavedState) {
    this.#position = position
    this.#announced = saved.isolated
    this.#kills = saved.kills
    this.#isolatedUntil = saved.isolatedUntil
  }

  /** The process of the owner before has ended while it had work; to be called before the first record runs. */
  formerDied(): void {
    this.#kills++
    this.crashedIsolated = this.#announced
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
