/**
 * The queue of one topic-partition. One batch is in flight at a time and is repeated unchanged until it is acknowledged
 * or every caller in it has given up, so nothing ever overtakes it; then what is appended next, a fence if nothing else
 * comes, refuses what is left of it.
 */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { partitionNotFound } from '../faults.ts'
import type { NewRecord } from '../port.ts'
import {
  createPartitionWriter,
  fenceRecord,
  type PartitionWriter,
  type PartitionWriterParts,
} from './partition-writer.ts'
import { SendFault } from './sender.ts'
import type { TopicFacts, TopicFactsCache } from './topics.ts'

const queueLimits = { bytesMax: 32 * 1_048_576, recordsMax: 50_000 }
/** So often, and with such pauses, brokers are asked for a partition before it counts as not there. */
const asksForAdded = 4
const addedPauseMs = 100
/** What one send takes from the queue. */
const batchLimits = { records: 500, bytes: 800_000 }

interface PartitionQueueParts extends PartitionWriterParts {
  facts: TopicFactsCache
  /** Called when bytes enter (positive) or leave (negative) the queue. */
  count(bytes: number): void
  /** Ends the tries to append a fence. */
  stop: AbortSignal
}

export type PartitionQueue = ReturnType<typeof createPartitionQueue>

export function createPartitionQueue(parts: PartitionQueueParts) {
  const { topic, partition, facts, count, stop, sender } = parts
  const writer = createPartitionWriter(parts)
  const { deliver, fence } = createDelivery({ topic, partition, facts, writer })
  const queue: Append[] = []
  const queued = { bytes: 0, records: 0 }
  let draining: Promise<void> | undefined

  function remove(append: Append): void {
    queued.bytes -= append.bytes
    queued.records -= append.records.length
    count(-append.bytes)
  }
  async function drain(): Promise<void> {
    for (let failures = 0; ; ) {
      if (queue.length === 0) {
        if (!writer.unresolved() || stop.aborted) break
        if (!(await fence())) await sleep(backoffMs(failures++, retryPause), stop)
        continue
      }
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
  }
  /** Another client may just have added the partition: brokers learn of it one after the other. */
  async function factsNow(): Promise<TopicFacts> {
    let known = await facts.get(topic)
    for (let asked = 0; partition >= known.partitions && asked < asksForAdded; asked++) {
      if (asked > 0) await sleep(addedPauseMs)
      known = await facts.refresh(topic)
    }
    if (partition < 0 || partition >= known.partitions) throw partitionNotFound(topic, partition)
    return known
  }
  /** Takes appends from the head, leaving out those whose caller gave up and those that are too large. */
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
  function start(): void {
    draining ??= drain()
  }
  function rejectAll(error: AppError): void {
    for (const append of queue) append.reject(error)
  }
  /** While nothing can be sent, appends whose caller gave up must not fill the memory. */
  function dropSettled(): void {
    for (const append of queue.splice(0)) {
      if (append.settled) remove(append)
      else queue.push(append)
    }
  }
  return {
    /**
     * False when the queue is full. An append that is larger than the whole queue passes when the queue is empty. One that is
     * patient waits until `start`, or for the next one that is not.
     */
    offer(append: Append, isPatient = false): boolean {
      const bytes = queued.bytes + append.bytes
      const records = queued.records + append.records.length
      if (queue.length > 0 && (bytes > queueLimits.bytesMax || records > queueLimits.recordsMax)) return false
      queue.push(append)
      queued.bytes = bytes
      queued.records = records
      count(append.bytes)
      if (!isPatient) start()
      return true
    },
    start,
    /** Nothing is under way, and something waits. */
    rests: () => draining === undefined && queue.length > 0,
    lastNode: () => sender.lastNode(topic, partition),
    /** Resolves when nothing waits and nothing is in flight. */
    idle: (): Promise<void> => draining ?? Promise.resolve(),
  }
}

/** A single append goes out in one batch up to here, and to the topic's limit. */
const sendRecordsMax = 2_000
const batchHeaderBytes = 100
const retryPause = { baseMs: 25, maxMs: 500 }

export interface Append {
  records: NewRecord[]
  /** As stored, with all that Kafka adds to the records. */
  bytes: number
  /** Bytes of the largest record, as its topic's limit counts them. */
  largest: number
  settled: boolean
  resolve(offset: number): void
  reject(error: AppError): void
}

type DeliveryParts = Pick<PartitionQueueParts, 'topic' | 'partition' | 'facts'> & { writer: PartitionWriter }

/** What Kafka adds to a record and to each of its headers: lengths, time, offset. */
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

function createDelivery({ topic, partition, writer, facts }: DeliveryParts) {
  /** Settles every append of the batch. */
  async function deliver(batch: Append[], { batchBytesMax }: TopicFacts): Promise<void> {
    // A fence may be in flight: an append now does its work.
    writer.giveUp()
    const records = batch.length === 1 ? batch[0]!.records : batch.flatMap((append) => append.records)
    const bytes = batch.reduce((sum, append) => sum + append.bytes, batchHeaderBytes)
    const whole = bytes <= batchBytesMax && records.length <= sendRecordsMax
    let end = 0
    for (const chunk of whole ? [{ records, bytes }] : chunksOf(records, batchBytesMax)) {
      const first = await sendUntilDone(batch, chunk)
      if (first === null) return
      end = first + chunk.records.length
    }
    // Counted back from the end: where others wrote between the chunks of this batch, the last offset is true.
    let offset = end - records.length
    for (const append of batch) {
      append.resolve(offset)
      offset += append.records.length
    }
  }
  /** The offset of the first record, or null when every caller has its answer already. */
  async function sendUntilDone(batch: Append[], { records, bytes }: Chunk): Promise<number | null> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await writer.send(records, bytes)
      } catch (error) {
        const final = await finalFault(error)
        if (final) for (const append of batch) append.reject(final)
      }
      if (batch.every((append) => append.settled)) {
        writer.giveUp()
        return null
      }
      await sleep(backoffMs(attempt, retryPause))
    }
  }
  /** Tries once to append a fence behind a batch that was given up; false when that has to be tried again. */
  async function fence(): Promise<boolean> {
    try {
      await writer.send([fenceRecord()], batchHeaderBytes)
      return true
    } catch (error) {
      if (!(await finalFault(error))) return false
      writer.forget()
      return true
    }
  }
  /** The answer to what no repetition can change; null for everything else, which is repeated. */
  async function finalFault(error: unknown): Promise<AppError | null> {
    if (error instanceof AppError && error.code === 'fenced') return error
    const type = error instanceof SendFault ? error.type : null
    if (type === 'MESSAGE_TOO_LARGE' || type === 'RECORD_LIST_TOO_LARGE') {
      facts.forget(topic)
      return tooLarge(topic)
    }
    if (type !== 'UNKNOWN_TOPIC_OR_PARTITION') return null
    try {
      const { partitions } = await facts.refresh(topic)
      return partition < partitions ? null : partitionNotFound(topic, partition)
    } catch (cause) {
      return cause instanceof AppError && cause.code === 'not_found' ? cause : null
    }
  }
  return { deliver, fence }
}

function tooLarge(topic: string, bytesMax?: number): AppError {
  const limit = bytesMax === undefined ? 'the limit' : `${bytesMax} bytes`
  return new AppError('payload_too_large', `A record is larger than ${limit} of ${topic}.`)
}

interface Chunk {
  records: NewRecord[]
  bytes: number
}

/** Whole records, in order, below the limit of one record batch. */
function chunksOf(records: NewRecord[], bytesMax: number): Chunk[] {
  const chunks: Chunk[] = []
  let chunk: Chunk = { records: [], bytes: Number.POSITIVE_INFINITY }
  for (const record of records) {
    const size = measure([record]).bytes
    if (chunk.bytes + size > bytesMax || chunk.records.length === sendRecordsMax) {
      chunk = { records: [], bytes: batchHeaderBytes }
      chunks.push(chunk)
    }
    chunk.records.push(record)
    chunk.bytes += size
  }
  return chunks
}
