/** Batch mode: one contiguous batch of a partition at a time goes to the handler, and an outcome comes back for each. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import type { Outcome } from '#lib/outcome.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { BatchOptions } from '../consumer.ts'
import { BatchCall, isRefused } from './batch-call.ts'
import { Headroom } from './commit-budget.ts'
import { doomedReason } from './crash-guard.ts'
import { decodeRecord, Fault } from './decode.ts'
import { outcomeOfFailure } from './handler-calls.ts'
import { retryWaitMsMax, uncommittedBatchesMax } from './limits.ts'
import { type Attempts, bitmapBytesMax, type Progress, setBit } from './metadata.ts'
import type { AnyMessage, Runner, RunnerHost } from './partition-host.ts'
import { runAlone } from './run-isolated.ts'

interface Item {
  record: StoredRecord
  /** null when the record cannot be decoded or must not be run; then `fault` says why. */
  message: AnyMessage | null
  fault: string
  /** Tries that failed. */
  attempts: number
  settled: boolean
}

/** Items that go to the handler together, after a wait. */
interface Group {
  items: Item[]
  waitMs: number
}

export class BatchRunner implements Runner {
  readonly #host: RunnerHost
  readonly #options: BatchOptions<SchemaName>
  /** The batch at work, in the order of offsets. */
  #items: Item[] = []
  /** Behind the batch at work. */
  #position: number
  #working = false
  #inFlight = 0
  #idle: (() => void)[] = []
  readonly #headroom = new Headroom({ concurrency: () => 1, most: uncommittedBatchesMax })

  constructor(host: RunnerHost, options: BatchOptions<SchemaName>) {
    this.#host = host
    this.#options = options
    this.#position = host.position
  }

  pump(): void {
    if (this.#working || this.#host.over || this.#host.intake.count === 0) return
    this.#working = true
    void this.#work()
  }

  progress(): Progress {
    this.#headroom.told()
    const { sieve } = this.#host
    const offset = this.#watermark()
    const first = this.#items.findIndex((item) => item.record.offset === offset)
    const finished = new Uint8Array(first < 0 && sieve.finished.size === 0 ? 0 : bitmapBytesMax)
    const attempts: Attempts[] = []
    for (const item of first < 0 ? [] : this.#items.slice(first)) {
      if (item.settled) setBit(finished, offset, item.record.offset)
      else if (item.attempts > 0)
        attempts.push({ offset: item.record.offset, count: item.attempts, spent: item.attempts })
    }
    for (const settled of sieve.finished) setBit(finished, offset, settled)
    attempts.push(...sieve.attempts())
    return { offset, finished, attempts }
  }

  /** The first offset that is not settled. */
  #watermark(): number {
    return this.#items.find((item) => !item.settled)?.record.offset ?? this.#position
  }

  window(): number {
    return this.#position - this.#watermark()
  }

  inFlight(): number {
    return this.#inFlight
  }

  /** Batches never drop what they hold, so nothing is read again. */
  refill(): void {}

  committed(): void {
    this.#headroom.committed()
  }

  idle(): Promise<void> {
    if (!this.#working) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  stop(): void {
    if (!this.#working) this.#items = []
  }

  async #work(): Promise<void> {
    const host = this.#host
    try {
      while (!host.over && host.intake.count > 0) {
        const begunAt = performance.now()
        const alone = host.guard.alone(this.#position)
        if (!(await this.#take(alone ? 1 : this.#options.batchRecordsMax))) break
        if (!(await this.#settleAll())) break
        this.#items = []
        this.#headroom.took(performance.now() - begunAt)
        this.#headroom.settled()
        // Two slow batches are never ahead of the commits; quick ones are, for some milliseconds.
        if (this.#headroom.used) {
          if (!(await host.committer.flush())) break
        } else if (this.#headroom.dwindling) host.committer.hurry()
        else host.committer.request()
      }
    } finally {
      this.#working = false
      for (const resolve of this.#idle.splice(0)) resolve()
      this.pump()
    }
  }

  /** Takes the next batch; false when the partition is over. */
  async #take(recordsMax: number): Promise<boolean> {
    const { intake, sieve, guard } = this.#host
    const items: Item[] = []
    let next = this.#position
    let bytes = 0
    for (let record = intake.peek(); record && items.length < recordsMax; record = intake.peek()) {
      bytes += record.value?.length ?? 0
      if (items.length > 0 && bytes > this.#options.batchBytesMax) break
      intake.shift()
      next = record.offset + 1
      if (sieve.sift(record) !== 'work') continue
      const item: Item = { record, message: null, fault: '', attempts: 0, settled: false }
      item.attempts = sieve.takeAttempts(record.offset).count
      if (record.offset === guard.doomed) {
        item.fault = doomedReason
      } else {
        const answer = decodeRecord(this.#host, record)
        const decoded = answer instanceof Promise ? await answer : answer
        if (decoded === null) return false
        if (decoded instanceof Fault) item.fault = decoded.reason
        else item.message = decoded
      }
      items.push(item)
    }
    intake.regulate()
    this.#items = items
    this.#position = next
    return true
  }

  /** Brings every record of the batch to its end; false when the partition is over before. */
  async #settleAll(): Promise<boolean> {
    const host = this.#host
    let sound = this.#items
    if (sound.some((item) => item.message === null)) {
      const faulty = this.#items.filter((item) => item.message === null)
      if (!(await this.#park(faulty.map((item) => ({ item, reason: item.fault }))))) return false
      sound = this.#items.filter((item) => item.message !== null)
    }
    // The group on top is the next one: halves and retries come before what lies behind them.
    const groups: Group[] = sound.length > 0 ? [{ items: sound, waitMs: 0 }] : []
    for (let group = groups.pop(); group; group = groups.pop()) {
      if (group.waitMs > 0) await sleep(group.waitMs, host.ending)
      if (!(await host.callable())) return false
      const { offset } = group.items[0]!.record
      const next = host.guard.alone(offset)
        ? await runAlone(host, offset, () => this.#try(group.items))
        : await this.#try(group.items)
      if (next === null) return false
      groups.push(...next)
      if (next.length > 0) host.committer.request()
    }
    return true
  }

  /** One call; the groups that have to be tried yet, last first, or null when the partition is gone. */
  async #try(items: Item[]): Promise<Group[] | null> {
    const outcomes = await this.#call(items)
    if (this.#host.gone.aborted) return null
    if (isRefused(outcomes)) {
      const half = items.length >> 1
      return [
        { items: items.slice(half), waitMs: 0 },
        { items: items.slice(0, half), waitMs: 0 },
      ]
    }
    if (outcomes.every((outcome) => outcome.kind === 'done')) {
      for (const item of items) item.settled = true
      this.#host.group.metrics.handled += items.length
      this.#host.group.gate.worked()
      return []
    }
    const rest = await this.#apply(items, outcomes)
    return rest === null || rest.items.length > 0 ? rest && [rest] : []
  }

  /** The handler's outcomes, or the one outcome that a throw or a time-out means for all of them. */
  #call(items: Item[]): Promise<Outcome[]> {
    const { id, group } = this.#host
    const { promise, resolve } = Promise.withResolvers<Outcome[]>()
    const call = new BatchCall(id, items[0]!.attempts + 1, (outcomes, error) => {
      this.#inFlight--
      group.metrics.took((performance.now() - call.startedAt) / 1_000)
      if (!call.timedOut && outcomes?.length === items.length) return resolve(outcomes)
      const fault = error ?? new Error(`${outcomes?.length} outcomes came back for ${items.length} records`)
      const outcome = outcomeOfFailure(fault, call, this.#options.callTimeoutMs)
      resolve(items.map(() => outcome))
    })
    this.#inFlight++
    group.calls.begin(call)
    const messages = items.map((item) => item.message!)
    void this.#handle(messages, call)
    return promise
  }

  async #handle(messages: AnyMessage[], call: BatchCall): Promise<void> {
    let outcomes: Outcome[] | undefined
    let error: unknown
    try {
      outcomes = await this.#options.handle(messages, call)
    } catch (thrown) {
      error = thrown ?? new Error('the handler threw nothing')
    }
    if (this.#host.group.calls.end(call)) call.ended(outcomes, error)
  }

  /** Settles what has come to an end and returns what has to be tried again; null when the partition is gone. */
  async #apply(items: Item[], outcomes: Outcome[]): Promise<Group | null> {
    const { gate, metrics } = this.#host.group
    const rest: Item[] = []
    const parked: { item: Item; reason: string }[] = []
    /** Keys with an earlier record that is tried again: what came after it has to come after it once more. */
    const held = new Set<string>()
    let waitMs = 0
    let away: { engine: string; reason: string } | null = null
    for (const [index, item] of items.entries()) {
      const outcome = outcomes[index]!
      if (outcome.kind === 'park') {
        parked.push({ item, reason: outcome.reason })
      } else if (outcome.kind === 'unavailable') {
        away ??= outcome
        rest.push(item)
      } else if (outcome.kind === 'retry') {
        metrics.failed++
        item.attempts++
        if (item.attempts > this.#options.retriesMax) {
          parked.push({ item, reason: outcome.reason })
        } else {
          rest.push(item)
          waitMs = Math.max(waitMs, outcome.afterMs ?? 0, backoffMs(item.attempts - 1, this.#options.backoff))
        }
      } else if (held.size > 0 && held.has(item.message!.key)) {
        rest.push(item)
      } else {
        item.settled = true
        metrics.handled++
      }
      if (rest.length > 0 && rest.at(-1) === item) held.add(item.message!.key)
    }
    if (away) gate.shut(away.engine, away.reason)
    else gate.worked()
    if (parked.length > 0 && !(await this.#park(parked))) return null
    return { items: rest, waitMs: Math.min(waitMs, retryWaitMsMax) }
  }

  async #park(parked: { item: Item; reason: string }[]): Promise<boolean> {
    const records = parked.map(({ item, reason }) => ({
      record: item.record,
      reason,
      attempts: item.attempts,
    }))
    if (!(await this.#host.park(records))) return false
    const { onParked } = this.#options
    const told =
      !onParked ||
      (await this.#host.persist('onParked', () =>
        onParked(
          parked.map(({ item, reason }) => ({
            message: item.message,
            position: { partition: item.record.partition, offset: item.record.offset },
            headers: item.record.headers,
            reason,
          })),
        ),
      ))
    if (!told) return false
    for (const { item } of parked) item.settled = true
    this.#host.group.metrics.parked += parked.length
    return true
  }
}
