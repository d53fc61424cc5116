/** Lane mode: records of one lane in order, lanes side by side up to `concurrency`, none beyond the window. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { backoffMs } from '#lib/backoff.ts'
import type { Hold, Outcome } from '#lib/outcome.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { LaneOptions } from '../consumer.ts'
import { Headroom } from './commit-budget.ts'
import { doomedReason } from './crash-guard.ts'
import { type Decoded, decodeRecord, Fault } from './decode.ts'
import { outcomeOfFailure } from './handler-calls.ts'
import { type Entry, Lane } from './lane.ts'
import { LaneDoor } from './lane-admission.ts'
import { LaneCall } from './lane-call.ts'
import { LaneBodies } from './lane-memory.ts'
import { oneLaneAheadMax, uncommittedRecordsMax } from './limits.ts'
import { type Progress, setBit } from './metadata.ts'
import type { AnyMessage, Runner, RunnerHost } from './partition-host.ts'
import { Fifo } from './queue.ts'
import { recordBytes } from './record-buffer.ts'
import { Retrying } from './retrying-lanes.ts'
import { runAlone } from './run-isolated.ts'
import { Window } from './window.ts'

const nobody = () => {}

export class LaneRunner implements Runner {
  readonly #host: RunnerHost
  readonly #options: LaneOptions<SchemaName>
  readonly #window: Window
  readonly #lanes = new Map<string, Lane>()
  readonly #ready = new Fifo<Lane>()
  readonly #retrying: Retrying
  readonly #bodies: LaneBodies
  readonly #door: LaneDoor
  /** Slots in use: calls, and heads on their way to a call or into the dead letters. */
  #slots = 0
  #inFlight = 0
  readonly #headroom: Headroom
  /** A lane that is alone has fallen to half of what may wait in it, and is not full again. */
  #takesIn = true
  #idle: (() => void)[] = []

  constructor(host: RunnerHost, options: LaneOptions<SchemaName>) {
    this.#host = host
    this.#options = options
    this.#window = new Window(host.position)
    this.#headroom = new Headroom({
      concurrency: () => Math.max(1, Math.min(options.concurrency, this.#lanes.size)),
      most: uncommittedRecordsMax,
    })
    this.#retrying = new Retrying(
      () => host.sieve.expected,
      (lane) => {
        this.#ready.push(lane)
        this.pump()
      },
    )
    this.#bodies = new LaneBodies({
      bytesMax: () => host.group.shareBytes() / 2,
      readAgainFrom: (offset) => host.readAgainFrom(offset),
      readOn: () => host.readOn(),
      arrived: (lane) => this.#ready.push(lane),
      vanished: (lane) => this.#settle(lane),
    })
    this.#door = new LaneDoor({
      host,
      options,
      window: this.#window,
      join: (lane, record) => this.#join(lane, record),
      opened: () => this.pump(),
    })
  }

  pump(): void {
    if (this.#host.over) return
    this.#admit()
    while (this.#slots < this.#options.concurrency && this.#ready.length > 0 && !this.#headroom.used) {
      if (this.#ready.peek()!.head.record === null) {
        this.#bodies.need(this.#ready.shift()!)
        continue
      }
      if (!this.#host.mayCall()) break
      this.#start(this.#ready.shift()!)
      if (this.#ready.length === 0) this.#admit()
    }
    this.#host.intake.regulate()
  }

  progress(): Progress {
    this.#headroom.told()
    const offset = this.#window.watermark
    const { sieve } = this.#host
    const finished = this.#window.bitmap(sieve.finished.size > 0)
    for (const settled of sieve.finished) setBit(finished, offset, settled)
    return { offset, finished, attempts: [...this.#retrying.attempts(), ...sieve.attempts()] }
  }

  readonly window = (): number => this.#window.span
  readonly waiting = (end: number): number => this.#window.waiting(end)
  readonly ripe = (): boolean => this.#headroom.ripe

  passed(record: StoredRecord): void {
    this.#door.passed(record)
  }

  rouse(): void {
    this.#retrying.rouse()
  }

  inFlight(): number {
    return this.#inFlight
  }

  refill(again: StoredRecord[], caughtUp: boolean): void {
    this.#bodies.refill(again, caughtUp)
    this.#host.intake.urge(this.#bodies.reading)
  }

  committed(): void {
    const waited = this.#headroom.used
    this.#headroom.committed()
    if (waited) this.pump()
  }

  idle(): Promise<void> {
    if (this.#inFlight === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  stop(): void {
    this.#retrying.clear()
    this.#bodies.clear()
    this.#ready.clear()
    this.#lanes.clear()
  }

  #admit(): void {
    this.#door.admit(this.#wanted)
  }

  readonly #wanted = (): boolean => {
    if (this.#ready.length >= this.#options.concurrency) return false
    if (!this.#door.oneLane) return true
    // One lane needs no more than what comes next: the rest is cheaper to hold in the intake, and to take many at once.
    const { open } = this.#window
    if (open >= oneLaneAheadMax) this.#takesIn = false
    else if (open <= oneLaneAheadMax / 2) this.#takesIn = true
    return this.#takesIn && !this.#bodies.full
  }

  #join(key: string, record: StoredRecord): void {
    const entry: Entry = { offset: record.offset, bytes: recordBytes(record), record, next: null }
    let lane = this.#lanes.get(key)
    this.#bodies.admit(entry, lane)
    if (lane) {
      lane.push(entry)
      return
    }
    lane = new Lane(key, entry)
    this.#lanes.set(key, lane)
    this.#takeHead(lane)
  }

  /** A lane has a new head. */
  #takeHead(lane: Lane): void {
    const { count, spent } = this.#host.sieve.takeAttempts(lane.head.offset)
    lane.attempts = count
    lane.spent = spent
    if (lane.attempts > 0) this.#retrying.resumed(lane)
    this.#ready.push(lane)
  }

  #start(lane: Lane): void {
    this.#slots++
    const record = lane.head.record!
    const { guard } = this.#host
    if (record.offset === guard.doomed) return void this.#park(lane, record, doomedReason)
    const decoded = decodeRecord(this.#host, record)
    const alone = guard.alone(record.offset)
    if (decoded instanceof Promise || alone) void this.#startLate(lane, record, decoded, alone)
    else if (decoded !== null) this.#run(lane, record, decoded, nobody)
  }

  async #startLate(
    lane: Lane,
    record: StoredRecord,
    late: Decoded | Promise<Decoded>,
    alone: boolean,
  ): Promise<void> {
    const decoded = await late
    const run = async () => {
      if (this.#host.over || decoded === null) return null
      await new Promise<void>((over) => this.#run(lane, record, decoded, over))
      return true
    }
    const ran = alone ? await runAlone(this.#host, record.offset, run) : await run()
    if (!ran) this.#slots--
  }

  /** `over` hears of the end of the call and of all that follows from it. */
  #run(lane: Lane, record: StoredRecord, decoded: AnyMessage | Fault, over: () => void): void {
    if (decoded instanceof Fault) return void this.#park(lane, record, decoded.reason).then(over)
    const call = new LaneCall(this.#host.id, lane, record, over, this)
    this.#inFlight++
    this.#host.group.calls.begin(call)
    call.run(this.#options, decoded)
  }

  finished(call: LaneCall, result: Outcome | Hold | undefined, error: unknown): void {
    if (this.#host.group.calls.end(call)) this.ended(call, result, error)
  }

  /** A call has come to its end, or was given up. */
  ended(call: LaneCall, result: Outcome | Hold | undefined, error: unknown): void {
    const { group, gone } = this.#host
    this.#inFlight--
    const tookMs = performance.now() - call.startedAt
    group.metrics.took(tookMs / 1_000)
    if (result?.kind !== 'hold' || result.tried) this.#headroom.took(tookMs)
    if (this.#inFlight === 0) for (const resolve of this.#idle.splice(0)) resolve()
    const { lane, record, over } = call
    if (gone.aborted) return void over()
    const outcome =
      result !== undefined && !call.timedOut
        ? result
        : outcomeOfFailure(error ?? new Error('no outcome came back'), call, this.#options.callTimeoutMs)
    if (outcome.kind === 'park' && outcome.tried) lane.attempts++
    if (outcome.kind === 'park') return void this.#park(lane, record, outcome.reason).then(over)
    this.#slots--
    this.#apply(lane, record, outcome)
    over()
  }

  #apply(lane: Lane, record: StoredRecord, outcome: Exclude<Outcome, { kind: 'park' }> | Hold): void {
    const { gate, metrics } = this.#host.group
    if (outcome.kind === 'unavailable') gate.shut(outcome.engine, outcome.reason)
    else gate.worked()
    if (outcome.kind === 'done') {
      metrics.handled++
      this.#settle(lane)
    } else if (outcome.kind === 'unavailable') {
      this.#ready.push(lane)
    } else if (outcome.kind === 'hold') {
      this.#hold(lane, outcome)
    } else {
      this.#failed(lane, record, outcome.reason, outcome.afterMs ?? 0)
    }
    this.pump()
  }

  /** The head waits for as long as its handler says, and is never given up here. */
  #hold(lane: Lane, { afterMs, tried, spent }: Hold): void {
    this.#bodies.waits(lane.head)
    if (!tried) return void this.#retrying.postponed(lane, afterMs)
    this.#host.group.metrics.failed++
    lane.attempts++
    lane.spent = spent
    this.#retrying.failed(lane, afterMs)
    this.#host.committer.request()
  }

  #failed(lane: Lane, record: StoredRecord, reason: string, afterMs: number): void {
    this.#host.group.metrics.failed++
    lane.attempts++
    lane.spent++
    if (lane.attempts > this.#options.retriesMax) {
      this.#slots++
      void this.#park(lane, record, reason)
      return
    }
    this.#bodies.waits(lane.head)
    this.#retrying.failed(lane, Math.max(afterMs, backoffMs(lane.attempts - 1, this.#options.backoff)))
    this.#host.committer.request()
  }

  /** Takes the slot that the lane holds until the dead letter is durable. */
  async #park(lane: Lane, record: StoredRecord, reason: string): Promise<void> {
    const parked = await this.#host.park([{ record, reason, attempts: lane.attempts }])
    this.#slots--
    if (!parked) return
    this.#host.group.gate.worked()
    this.#host.group.metrics.parked++
    this.#settle(lane)
    this.pump()
  }

  /** The head is through: the watermark may rise, the lane goes on. */
  #settle(lane: Lane): void {
    const { head } = lane
    this.#bodies.release(head)
    this.#window.finish(head.offset)
    this.#headroom.settled()
    if (this.#headroom.dwindling) this.#host.committer.hurry()
    else this.#host.committer.request()
    this.#retrying.settled(lane)
    if (lane.shift()) this.#takeHead(lane)
    else this.#lanes.delete(lane.key)
  }
}
