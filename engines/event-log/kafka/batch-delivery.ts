/**
 * Delivers a batch of appends to one partition: repeats it until it is acknowledged, gives each append its offset, and
 * ends early only for what no repetition can change.
 */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { NewRecord } from '../port.ts'
import { partitionNotFound } from './faults.ts'
import { fenceRecord } from './fence.ts'
import type { PartitionWriter } from './partition-writer.ts'
import { SendFault } from './sender.ts'
import type { TopicFacts, TopicFactsCache } from './topic-facts.ts'

/** A single append goes out in one batch up to here, and to the topic's limit. */
const sendRecordsMax = 2_000
export const batchHeaderBytes = 100
export const retryPause = { baseMs: 25, maxMs: 500 }

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

interface DeliveryParts {
  topic: string
  partition: number
  writer: PartitionWriter
  facts: TopicFactsCache
}

export interface Delivery {
  /** Settles every append of the batch. */
  deliver(batch: Append[], facts: TopicFacts): Promise<void>
  /** Tries once to append a fence behind a batch that was given up; false when that has to be tried again. */
  fence(): Promise<boolean>
}

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

export function createDelivery({ topic, partition, writer, facts }: DeliveryParts): Delivery {
  async function deliver(batch: Append[], { batchBytesMax }: TopicFacts): Promise<void> {
    // A fence may be under way: what is appended now takes its part.
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

export function tooLarge(topic: string, bytesMax?: number): AppError {
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
