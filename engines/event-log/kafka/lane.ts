/**
 * The queue of one topic-partition: appends in, one batch in flight, each append's offset out. The batch at the head is
 * repeated unchanged until it is acknowledged or every caller in it has given up; nothing ever overtakes it.
 */

import type { Message } from 'kafkajs'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { NewRecord } from '../port.ts'
import { faultType, partitionNotFound } from './faults.ts'
import type { Sender } from './sender.ts'
import type { TopicFacts, TopicFactsCache } from './topic-facts.ts'

export const laneLimits = { bytesMax: 32 * 1_048_576, recordsMax: 50_000 }
/** What one send takes from the queue. A single append may be larger, up to the topic's limit. */
const batchLimits = { records: 500, bytes: 800_000 }
const batchHeaderBytes = 100
const retryPause = { baseMs: 25, maxMs: 500 }
/** Tries of one batch after which the client itself is suspected. */
const suspectAfter = 3

export interface Append {
  records: NewRecord[]
  bytes: number
  settled: boolean
  resolve(offset: number): void
  reject(error: AppError): void
}

export interface Lane {
  /** False when the lane is full. An append that is larger than the whole queue passes when the queue is empty. */
  offer(append: Append): boolean
  /** Resolves when nothing waits and nothing is in flight. */
  idle(): Promise<void>
}

interface LaneParts {
  topic: string
  partition: number
  sender: Sender
  facts: TopicFactsCache
  /** Called when bytes enter (positive) or leave (negative) the queue. */
  count(bytes: number): void
  /** Called when nothing waits and nothing is in flight any more. */
  drained(): void
}

/** Bytes of a record as its topic's limit counts them. */
export function recordBytes({ key, value, headers }: NewRecord): number {
  let bytes = (key?.length ?? 0) + (value?.length ?? 0)
  for (const name in headers) bytes += Buffer.byteLength(name) + Buffer.byteLength(headers[name]!)
  return bytes
}

/** The same with room for the lengths, the time and the offset that Kafka writes beside it. */
export function storedBytes(record: NewRecord): number {
  let bytes = recordBytes(record) + 40
  for (const _ in record.headers) bytes += 10
  return bytes
}

export function createLane({ topic, partition, sender, facts, count, drained }: LaneParts): Lane {
  const queue: Append[] = []
  const queued = { bytes: 0, records: 0 }
  let draining: Promise<void> | undefined

  function remove(append: Append): void {
    queued.bytes -= append.bytes
    queued.records -= append.records.length
    count(-append.bytes)
  }
  async function drain(): Promise<void> {
    for (let failures = 0; queue.length > 0; ) {
      const batch = await nextBatch().catch((error: unknown) => error as AppError)
      if (batch instanceof Error) {
        if (batch.code === 'not_found') rejectAll(batch)
        else await sleep(backoffMs(failures++, retryPause))
        dropSettled()
        continue
      }
      failures = 0
      if (batch.length > 0) await deliver(batch)
    }
    draining = undefined
    drained()
  }
  /** Takes appends from the head; those that gave up or are too large fall out here. */
  async function nextBatch(): Promise<Append[]> {
    let known = await facts.get(topic)
    if (partition < 0 || partition >= known.partitions) known = await facts.refresh(topic)
    if (partition < 0 || partition >= known.partitions) throw partitionNotFound(topic, partition)
    return take(known)
  }
  function take(known: TopicFacts): Append[] {
    const batch: Append[] = []
    const bytesMax = Math.min(batchLimits.bytes, known.batchBytesMax - batchHeaderBytes)
    let [bytes, records] = [0, 0]
    for (let head = queue[0]; head; head = queue[0]) {
      const fits = bytes + head.bytes <= bytesMax && records + head.records.length <= batchLimits.records
      if (batch.length > 0 && !fits && !head.settled) break
      queue.shift()
      remove(head)
      if (head.settled) continue
      if (head.records.some((record) => recordBytes(record) > known.recordBytesMax)) {
        head.reject(tooLarge(topic, known.recordBytesMax))
        continue
      }
      batch.push(head)
      bytes += head.bytes
      records += head.records.length
      if (bytes > bytesMax) break
    }
    return batch
  }
  async function deliver(batch: Append[]): Promise<void> {
    const records = batch.flatMap((append) => append.records)
    const known = await facts.get(topic).catch(() => null)
    let end = 0
    for (const chunk of chunksOf(records, known?.batchBytesMax ?? batchLimits.bytes)) {
      const first = await sendUntilDone(batch, chunk)
      if (first === null) return
      end = first + chunk.length
    }
    // Counted back from the end: where several chunks were written and others wrote between them, the last offset is true.
    let offset = end - records.length
    for (const append of batch) {
      append.resolve(offset)
      offset += append.records.length
    }
  }
  /** The offset of the first record, or null when every caller has its answer already. */
  async function sendUntilDone(batch: Append[], records: NewRecord[]): Promise<number | null> {
    const messages = records.map((record) => messageOf(record, partition))
    for (let attempt = 0; ; attempt++) {
      try {
        return await sender.send(topic, partition, messages)
      } catch (error) {
        const final = await finalFault(error)
        if (final) for (const append of batch) append.reject(final)
      }
      if (batch.every((append) => append.settled)) return null
      if (attempt >= suspectAfter) sender.renew()
      await sleep(backoffMs(attempt, retryPause))
    }
  }
  /** What no repetition mends; everything else is repeated. */
  async function finalFault(error: unknown): Promise<AppError | null> {
    const type = faultType(error)
    if (type === 'MESSAGE_TOO_LARGE' || type === 'RECORD_LIST_TOO_LARGE') {
      facts.forget(topic)
      return tooLarge(topic)
    }
    if (type !== 'UNKNOWN_TOPIC_OR_PARTITION') return null
    try {
      const { partitions } = await facts.refresh(topic)
      if (partition < partitions) {
        sender.renew()
        return null
      }
      return partitionNotFound(topic, partition)
    } catch (cause) {
      return cause instanceof AppError && cause.code === 'not_found' ? cause : null
    }
  }
  function rejectAll(error: AppError): void {
    for (const append of queue) append.reject(error)
  }
  /** While nothing can be sent, those that gave up must not fill the memory. */
  function dropSettled(): void {
    for (const append of queue.splice(0)) {
      if (append.settled) remove(append)
      else queue.push(append)
    }
  }
  return {
    offer(append) {
      const bytes = queued.bytes + append.bytes
      const records = queued.records + append.records.length
      if (queue.length > 0 && (bytes > laneLimits.bytesMax || records > laneLimits.recordsMax)) return false
      queue.push(append)
      queued.bytes = bytes
      queued.records = records
      count(append.bytes)
      draining ??= drain()
      return true
    },
    idle: () => draining ?? Promise.resolve(),
  }
}

function tooLarge(topic: string, bytesMax?: number): AppError {
  const limit = bytesMax === undefined ? 'the limit' : `${bytesMax} bytes`
  return new AppError('payload_too_large', `A record is larger than ${limit} of ${topic}.`)
}

function messageOf({ key, value, headers }: NewRecord, partition: number): Message {
  return headers ? { key, value, headers, partition } : { key, value, partition }
}

/** Whole records, in order, below the limit of one record batch. */
function chunksOf(records: NewRecord[], bytesMax: number): NewRecord[][] {
  const chunks: NewRecord[][] = []
  let [chunk, bytes]: [NewRecord[], number] = [[], Number.POSITIVE_INFINITY]
  for (const record of records) {
    const size = storedBytes(record)
    if (bytes + size > bytesMax) {
      chunk = []
      bytes = batchHeaderBytes
      chunks.push(chunk)
    }
    chunk.push(record)
    bytes += size
  }
  return chunks
}
