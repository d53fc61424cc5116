/** Batch mode: hands the handler one contiguous batch of a partition at a time and brings each of its records to an end. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { type BatchOutcome, type Outcome, retry, split } from '#lib/outcome.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { Message } from '../publish/messages.ts'
import { type BatchGroup, type BatchRecord, decideBatch } from './batch-outcomes.ts'
import { undecodable } from './dead-letters.ts'
import { type Attempts, bitmapBytesMax, type Progress, setBit } from './metadata.ts'
import type { Partition } from './partition.ts'
import type { Decode, PartitionRunner } from './partition-host.ts'
import { crashedReason } from './position.ts'
import { addShare, copyOut, heldBytes, isHardlyNeeded, type Shares } from './record-buffer.ts'
import type { BatchOptions } from './types.ts'

/** A record of the batch at work. */
class Item<S extends SchemaName> implements BatchRecord {
  record: StoredRecord
  message: Message<Schemas[S]> | null
  /** Why it has to be parked, without a message. */
  readonly reason: string
  /** Attempts that failed. */
  attempts: number
  settled = false

  constructor(record: StoredRecord, message: Item<S>['message'], reason: string, attempts: number) {
    this.record = record
    this.message = message
    this.reason = reason
    this.attempts = attempts
  }

  get key(): string {
    return this.message?.key ?? ''
  }

  copyOut(decode: Decode<S>): void {
    this.record = copyOut(this.record)
    // The message is a view of its record. Its schema is known by now, so it is decoded at once.
    const again = this.message && decode(this.record)
    if (again && !(again instanceof Promise)) this.message = again.message ?? null
  }
}

export class BatchRunner<S extends SchemaName> implements PartitionRunner {
  readonly #host: Partition
  readonly #options: BatchOptions<S>
  readonly #decode: Decode<S>
  /** The batch at work, in the order of offsets. */
  #items: Item<S>[] = []
  /** The offset behind the batch at work. */
  #position: number
  /** The batch that was at work when it was last asked to be copied out. */
  #seen: Item<S>[] = []
  #work: Promise<void> | null = null
  #inFlight = 0

  constructor(host: Partition, options: BatchOptions<S>, decode: Decode<S>) {
    this.#host = host
    this.#options = options
    this.#decode = decode
    this.#position = host.position
  }

  pump(): void {
    if (this.#work !== null || this.#host.ending.aborted || this.#host.buffer.count === 0) return
    if (!this.#host.open()) return
    this.#work = this.#workThrough().finally(() => {
      this.#work = null
      this.pump()
    })
  }

  progress(): Progress {
    const { resumeState } = this.#host
    const offset = this.#watermark()
    const first = this.#items.findIndex((item) => item.record.offset === offset)
    const settled = new Uint8Array(first < 0 && resumeState.settled.size === 0 ? 0 : bitmapBytesMax)
    const attempts: Attempts[] = []
    for (const { record, settled: done, attempts: count } of first < 0 ? [] : this.#items.slice(first)) {
      if (done) setBit(settled, offset, record.offset)
      else if (count > 0) attempts.push({ offset: record.offset, count, retriesUsed: count })
    }
    for (const earlier of resumeState.settled) setBit(settled, offset, earlier)
    attempts.push(...resumeState.attempts())
    return { offset, settled, attempts }
  }

  window(): number {
    return this.#position - this.#watermark()
  }

  waiting(): null {
    return null
  }

  oldest(): number | null {
    return this.#items.find((item) => !item.settled)?.record.timestamp ?? null
  }

  inFlight(): number {
    return this.#inFlight
  }

  idle(): Promise<void> {
    return this.#work ?? Promise.resolve()
  }

  addShares(shares: Shares): void {
    for (const { record } of this.#items) addShare(shares, record, heldBytes(record))
  }

  copyOut(shares: Shares): void {
    if (this.#seen === this.#items) {
      for (const item of this.#items) if (isHardlyNeeded(item.record, shares)) item.copyOut(this.#decode)
    }
    this.#seen = this.#items
  }

  stop(): void {
    if (this.#work === null) this.#items = []
  }

  /** The first offset that is not settled. */
  #watermark(): number {
    return this.#items.find((item) => !item.settled)?.record.offset ?? this.#position
  }

  /** Batch after batch, until nothing is left or the partition comes to its end. */
  async #workThrough(): Promise<void> {
    const { ending, buffer, guard, committer } = this.#host
    while (!ending.aborted && buffer.count > 0) {
      const isolated = guard.mustRunIsolated(this.#position)
      if (!(await this.#take(isolated ? 1 : this.#options.batchRecordsMax))) return
      if (!(await this.#settleAll())) return
      const { isAwaited } = this.#options
      const awaited = isAwaited && this.#items.some(({ message }) => message && isAwaited(message))
      this.#items = []
      committer.settled(awaited)
      if (committer.behind && !(await committer.flush())) return
    }
  }

  /** Takes the next batch; false when the partition comes to its end. */
  async #take(recordsMax: number): Promise<boolean> {
    const { buffer, resumeState } = this.#host
    const items: Item<S>[] = []
    let next = this.#position
    let bytes = 0
    for (let record = buffer.peek(); record && items.length < recordsMax; record = buffer.peek()) {
      bytes += record.value?.length ?? 0
      if (items.length > 0 && bytes > this.#options.batchBytesMax) break
      buffer.shift()
      next = record.offset + 1
      if (resumeState.classify(record) !== 'work') continue
      const { count } = resumeState.takeAttempts(record.offset)
      if (record.offset === this.#host.guard.crashedIsolated) {
        items.push(new Item<S>(record, null, crashedReason, count))
        continue
      }
      const read = this.#decode(record)
      const { message, fault } = read instanceof Promise ? await read : read
      if (!message && fault === undefined) return false
      items.push(new Item(record, message ?? null, fault === undefined ? '' : undecodable(fault), count))
    }
    buffer.updateFetching()
    this.#items = items
    this.#position = next
    return true
  }

  /** Brings every record of the batch to its end; false when the partition comes to its end before. */
  async #settleAll(): Promise<boolean> {
    const { guard, committer, ending } = this.#host
    const faulty = this.#items
      .filter(({ message }) => !message)
      .map((item) => ({ record: item, reason: item.reason }))
    if (faulty.length > 0 && !(await this.#park(faulty))) return false
    const sound = this.#items.filter((item) => !item.settled)
    // The last group is the next one: halves and retries come before what lies behind them.
    const groups: BatchGroup<Item<S>>[] = sound.length > 0 ? [{ records: sound, waitMs: 0 }] : []
    for (let group = groups.pop(); group; group = groups.pop()) {
      const { records, waitMs } = group
      if (waitMs > 0) await sleep(waitMs, ending)
      if (!(await this.#host.whenMayCall())) return false
      const { offset } = records[0]!.record
      const again = guard.mustRunIsolated(offset)
        ? await this.#host.runIsolated(offset, () => this.#try(records))
        : await this.#try(records)
      if (again === null) return false
      groups.push(...again.toReversed())
      if (again.length > 0) committer.commitSoon()
    }
    return true
  }

  /** One call and its outcomes; the groups to retry, or null when the partition is gone. */
  async #try(items: Item<S>[]): Promise<BatchGroup<Item<S>>[] | null> {
    const { gone, group } = this.#host
    const outcomes = await this.#call(items)
    if (gone.aborted || outcomes === null) return null
    const { settled, parked, again, failed, unavailable } = decideBatch(items, outcomes, this.#options)
    for (const item of settled) item.settled = true
    group.metrics.handled += settled.length
    group.metrics.failed += failed
    if (unavailable) group.breaker.trip(unavailable.engine, unavailable.reason)
    else group.breaker.callWorked()
    return parked.length === 0 || (await this.#park(parked)) ? again : null
  }

  /**
   * An outcome for each item; a call that fails as a whole has refused them together, unless there is but one. Null when
   * the partition goes and the call was cut short for it.
   */
  async #call(items: Item<S>[]): Promise<BatchOutcome[] | null> {
    const { id: partition, group, lost } = this.#host
    const { attempts } = items[0]!
    this.#inFlight++
    const messages = items.map((item) => item.message!)
    const facts = { partition, lost, attempt: attempts + 1, retriesUsed: attempts }
    const end = await group.calls.run(facts, (context) => this.#options.handle(messages, context))
    this.#inFlight--
    group.metrics.callTook(end.tookMs / 1_000)
    if (end.kind === 'interrupted') return null
    if (end.kind === 'answered' && end.answer?.length === items.length) return end.answer
    const failure =
      end.kind === 'answered'
        ? retry(`${end.answer?.length ?? 0} outcomes came back for ${items.length} records`)
        : end.failure
    return items.map(() => ofOneRecord(failure, items.length))
  }

  async #park(parked: { record: Item<S>; reason: string }[]): Promise<boolean> {
    const letters = parked.map(({ record: { record, attempts }, reason }) => ({ record, reason, attempts }))
    if (!(await this.#host.park(letters))) return false
    const { onParked } = this.#options
    if (onParked) {
      const messages = parked.map(({ record: { record, message }, reason }) => ({
        message,
        position: { partition: record.partition, offset: record.offset },
        headers: record.headers,
        reason,
      }))
      if (!(await this.#host.retryUntilDone('onParked', () => onParked(messages)))) return false
    }
    for (const { record } of parked) record.settled = true
    this.#host.group.metrics.parked += parked.length
    return true
  }
}

/** What the failure of a whole call means for each of its records. */
function ofOneRecord(failure: Outcome, records: number): BatchOutcome {
  return failure.kind === 'retry' && records > 1 ? split(failure.reason) : failure
}
