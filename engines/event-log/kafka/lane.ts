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
/** What one send takes from the queue. */
const batchLimits = { records: 500, bytes: 800_000 }
/** A single append goes out in one send up to here (kafkajs's work grows with the square), and to the topic's limit. */
const sendRecordsMax = 2_000
const batchHeaderBytes = 100
const retryPause = { baseMs: 25, maxMs: 500 }
/** Tries of one batch after which the client itself is suspected. */
const suspectAfter = 3

export interface Append {
  records: NewRecord[]
  /** As stored, with all that Kafka writes beside the records. */
  bytes: number
  /** Bytes of the largest record, as its topic's limit counts them. */
  largest: number
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

/** What Kafka writes beside a record, and beside each of its headers: lengths, time, offset. */
const frameBytes = { record: 40, header: 10 }

/** Bytes of all records as stored, and of the largest one as its topic's limit counts them. */
export function measure(records: NewRecord[]): { bytes: number; largest: number } {
  let [bytes, largest] = [0, 0]
  for (const { key, value, headers } of records) {
    let own = (key?.length ?? 0) + (value?.length ?? 0)
    for (const name in headers) {
      own += Buffer.byteLength(name) + Buffer.byteLength(headers[name]!)
      bytes += frameBytes.header
    }
    bytes += own + frameBytes.record
    if (own > largest) largest = own
  }
  return { bytes, largest }
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
      const known = await factsNow().catch((error: unknown) => error as AppError)
      if (known instanceof Error) {
        if (known.code === 'not_found') rejectAll(known)
        else await sleep(backoffMs(failures++, retryPause))
        dropSettled()
        continue
      }
      failures = 0
      const batch = take(known)
      if (batch.length > 0) await deliver(batch, known)
    }
    draining = undefined
    drained()
  }
  async function factsNow(): Promise<TopicFacts> {
    let known = await facts.get(topic)
    if (partition < 0 || partition >= known.partitions) known = await facts.refresh(topic)
    if (partition < 0 || partition >= known.partitions) throw partitionNotFound(topic, partition)
    return known
  }
  /** Takes appends from the head; those that gave up or are too large fall out here. */
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
      if (head.largest > known.recordBytesMax) {
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
  async function deliver(batch: Append[], { batchBytesMax }: TopicFacts): Promise<void> {
    const records = batch.length === 1 ? batch[0]!.records : batch.flatMap((append) => append.records)
    const bytes = batch.reduce((sum, append) => sum + append.bytes, batchHeaderBytes)
    const whole = bytes <= batchBytesMax && records.length <= sendRecordsMax
    let end = 0
    for (const chunk of whole ? [records] : chunksOf(records, batchBytesMax)) {
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
    const size = measure([record]).bytes
    if (bytes + size > bytesMax || chunk.length === sendRecordsMax) {
      chunk = []
      bytes = batchHeaderBytes
      chunks.push(chunk)
    }
    chunk.push(record)
    bytes += size
  }
  return chunks
}
