/**
 * Lane mode: records of one lane run in order, lanes side by side up to `concurrency`. None enters a lane beyond the window,
 * or while the records in lanes fill their part of the partition's memory.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { backoffMs } from '#lib/backoff.ts'
import { spendTurn } from '#lib/giving-way.ts'
import { type Hold, type LaneOutcome, retry } from '#lib/outcome.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { Message } from '../publish/messages.ts'
import { undecodable } from './dead-letters.ts'
import { type CallEnd, PendingCount } from './handler-calls.ts'
import { Lane, LaneAdmission, RetryingLanes } from './lanes.ts'
import { bufferPart, longCallMs, oneLaneAheadMax } from './limits.ts'
import { type Progress, setBit } from './metadata.ts'
import type { Partition } from './partition.ts'
import type { Decode, PartitionRunner } from './partition-host.ts'
import { crashedReason } from './position.ts'
import { copyOut, heldBytes, Queue } from './record-buffer.ts'
import type { LaneOptions } from './types.ts'
import { Window } from './window.ts'

export class LaneRunner<S extends SchemaName> implements PartitionRunner {
  readonly #host: Partition
  readonly #options: LaneOptions<S>
  readonly #decode: Decode<S>
  readonly #window: Window
  readonly #lanes = new Map<string, Lane>()
  /** Lanes whose head may run. */
  readonly #ready = new Queue<Lane>()
  /** Lanes whose head waits for a time. */
  readonly #retrying: RetryingLanes
  /** Size of all records in lanes. */
  #bytes = 0
  readonly #admission: LaneAdmission<S>
  /** Heads under way: to a call, in it, or into the dead letters. */
  #underWay = 0
  readonly #calls = new PendingCount()
  /** The event loop turns before another head begins. */
  #turning = false
  /** While there is one lane: it has fallen to half of what may wait in it, and is not full again. */
  #takesMore = true

  constructor(host: Partition, options: LaneOptions<S>, decode: Decode<S>) {
    this.#host = host
    this.#options = options
    this.#decode = decode
    this.#window = new Window(host.position)
    this.#retrying = new RetryingLanes(
      () => host.resumeState.awaited,
      (lane) => {
        this.#ready.push(lane)
        this.pump()
      },
    )
    this.#admission = new LaneAdmission({
      host,
      options,
      decode,
      window: this.#window,
      join: (lane, record) => this.#join(lane, record),
      onReady: () => this.pump(),
    })
  }

  pump(): void {
    if (this.#host.ending.aborted) return
    this.#admit()
    const { committer } = this.#host
    while (this.#underWay < this.#options.concurrency && this.#ready.length > 0 && !committer.behind) {
      if (this.#turning || !this.#host.mayCall()) break
      const lane = this.#ready.shift()!
      this.#spendTurn(lane.head)
      void this.#runHead(lane)
      if (this.#ready.length === 0) this.#admit()
    }
    this.#host.buffer.updateFetching()
  }

  /**
   * Handlers that wait for nothing would keep the event loop until no record is left: no commit would go out meanwhile, no
   * heartbeat, and nothing would be fetched.
   */
  #spendTurn(record: StoredRecord): void {
    const turn = spendTurn(heldBytes(record))
    if (!turn) return
    this.#turning = true
    void turn.then(() => {
      this.#turning = false
      this.pump()
    })
  }

  progress(): Progress {
    const offset = this.#window.watermark
    const { resumeState } = this.#host
    const settled = this.#window.bitmap(resumeState.settled.size > 0)
    for (const earlier of resumeState.settled) setBit(settled, offset, earlier)
    return { offset, settled, attempts: [...this.#retrying.attempts(), ...resumeState.attempts()] }
  }

  window(): number {
    return this.#window.span
  }

  waiting(end: number): number {
    return this.#window.waiting(end)
  }

  oldest(): number | null {
    // The record at the watermark is the head of its lane: nothing before it is open.
    for (const { head } of this.#lanes.values()) {
      if (head.offset === this.#window.watermark) return head.timestamp
    }
    return null
  }

  inFlight(): number {
    return this.#calls.size
  }

  idle(): Promise<void> {
    return this.#calls.idle()
  }

  settledBefore(record: StoredRecord): void {
    this.#admission.settledBefore(record)
  }

  wake(): void {
    this.#retrying.wake()
  }

  copyOut(): void {
    const { breaker, calls } = this.#host.group
    // Where heads wait, or a call takes long, all records in memory may be behind them. Others are not worth a copy.
    const heldUp = this.#retrying.waiting || calls.longerThan(longCallMs)
    if (breaker.allowsCalls && !heldUp) return
    for (const lane of this.#lanes.values()) lane.replace(copyOut)
  }

  stop(): void {
    this.#retrying.clear()
    this.#ready.clear()
    this.#lanes.clear()
  }

  #admit(): void {
    this.#admission.admit(this.#wantsMore)
  }

  readonly #wantsMore = (): boolean => {
    if (this.#ready.length >= this.#options.concurrency) return false
    // The record that fills it may be of any size: a large one comes through, too.
    if (this.#bytes >= this.#host.group.shareBytes() * (1 - bufferPart.lanes)) return false
    if (!this.#admission.oneLane) return true
    // One lane needs only the next records: the rest costs less in the buffer, and is taken many at once.
    const { open } = this.#window
    if (open >= oneLaneAheadMax) this.#takesMore = false
    else if (open <= oneLaneAheadMax / 2) this.#takesMore = true
    return this.#takesMore
  }

  #join(key: string, record: StoredRecord): void {
    this.#bytes += heldBytes(record)
    const known = this.#lanes.get(key)
    if (known) {
      known.push(record)
      return
    }
    const lane = new Lane(key, record)
    this.#lanes.set(key, lane)
    this.#headIsReady(lane)
  }

  /** A lane has a new head. */
  #headIsReady(lane: Lane): void {
    const { count, retriesUsed } = this.#host.resumeState.takeAttempts(lane.head.offset)
    lane.attempts = count
    lane.retriesUsed = retriesUsed
    if (lane.attempts > 0) this.#retrying.resumed(lane)
    this.#ready.push(lane)
  }

  /** Takes the head of a lane through one call and its outcome. */
  async #runHead(lane: Lane): Promise<void> {
    this.#underWay++
    const { guard } = this.#host
    const record = lane.head
    if (record.offset === guard.crashedIsolated) {
      await this.#park(lane, record, crashedReason)
    } else {
      const read = this.#decode(record)
      const { message, fault } = read instanceof Promise ? await read : read
      if (fault !== undefined) await this.#park(lane, record, undecodable(fault))
      // Others may have begun while the registry was asked.
      else if (!message || (read instanceof Promise && !(await this.#host.whenMayCall()))) return
      else if (guard.mustRunIsolated(record.offset)) {
        await this.#host.runIsolated(record.offset, async () => {
          await this.#callEnded(lane, record, await this.#call(lane, message))
        })
      } else {
        const parking = this.#callEnded(lane, record, await this.#call(lane, message))
        if (parking) await parking
      }
    }
    this.#underWay--
    this.pump()
  }

  #call(lane: Lane, message: Message<Schemas[S]>): Promise<CallEnd<LaneOutcome>> {
    const { id: partition, group, lost } = this.#host
    const facts = { partition, lost, attempt: lane.attempts + 1, retriesUsed: lane.retriesUsed }
    this.#calls.begin()
    return group.calls.run(facts, (context) => this.#options.handle(message, context))
  }

  /** Not async: awaiting a result that is already there would cost every call another promise. */
  #callEnded(lane: Lane, record: StoredRecord, end: CallEnd<LaneOutcome>): Promise<void> | undefined {
    const { group, gone } = this.#host
    this.#calls.end()
    group.metrics.callTook(end.tookMs / 1_000)
    if (gone.aborted || end.kind === 'interrupted') return undefined
    const outcome =
      end.kind === 'answered' ? (end.answer ?? retry('the handler gave no outcome')) : end.failure
    const parkReason = this.#apply(lane, outcome)
    return parkReason === null ? undefined : this.#park(lane, record, parkReason)
  }

  /** Does what the outcome says of the head; its reason when the head has to be parked. */
  #apply(lane: Lane, outcome: LaneOutcome): string | null {
    const { breaker, metrics } = this.#host.group
    if (outcome.kind === 'unavailable') breaker.trip(outcome.engine, outcome.reason)
    else if (outcome.kind !== 'park') breaker.callWorked()
    switch (outcome.kind) {
      case 'done':
        metrics.handled++
        this.#settle(lane)
        return null
      case 'unavailable':
        this.#ready.push(lane)
        return null
      case 'hold':
        this.#hold(lane, outcome)
        return null
      case 'park':
        if (outcome.tried) lane.attempts++
        return outcome.reason
      case 'retry':
        return this.#retry(lane, outcome.afterMs ?? 0) ? null : outcome.reason
    }
  }

  /** The head waits for as long as its handler says, and is never given up here. */
  #hold(lane: Lane, { afterMs, tried, retriesUsed }: Hold): void {
    if (!tried) {
      this.#retrying.postponed(lane, afterMs)
      return
    }
    this.#host.group.metrics.failed++
    lane.attempts++
    lane.retriesUsed = retriesUsed
    this.#retrying.failed(lane, afterMs)
    this.#host.committer.commitSoon()
  }

  /** Counts a failed attempt; false when the head has none left. */
  #retry(lane: Lane, afterMs: number): boolean {
    this.#host.group.metrics.failed++
    lane.attempts++
    lane.retriesUsed++
    if (lane.attempts > this.#options.retriesMax) return false
    this.#retrying.failed(lane, Math.max(afterMs, backoffMs(lane.attempts - 1, this.#options.backoff)))
    this.#host.committer.commitSoon()
    return true
  }

  /** The head is settled when its dead letter is durable. */
  async #park(lane: Lane, record: StoredRecord, reason: string): Promise<void> {
    if (!(await this.#host.park([{ record, reason, attempts: lane.attempts }]))) return
    this.#host.group.breaker.callWorked()
    this.#host.group.metrics.parked++
    this.#settle(lane)
  }

  /** The head is settled: the watermark may rise, the lane goes on. */
  #settle(lane: Lane): void {
    const { head } = lane
    this.#bytes -= heldBytes(head)
    this.#window.settle(head.offset)
    this.#host.committer.settled()
    this.#retrying.settled(lane)
    if (lane.shift()) this.#headIsReady(lane)
    else this.#lanes.delete(lane.key)
  }
}
