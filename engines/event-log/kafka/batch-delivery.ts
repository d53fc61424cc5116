/**
 * Delivers a batch of appends to one partition: repeats it until it is acknowledged, gives each append its offset, and
 * ends early only for what no repetition can change.
 */

import type { Message } from 'kafkajs'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { NewRecord } from '../port.ts'
import { faultType, partitionNotFound } from './faults.ts'
import type { Sender } from './sender.ts'
import type { TopicFacts, TopicFactsCache } from './topic-facts.ts'

/** A single append goes out in one send up to here (kafkajs's work grows with the square), and to the topic's limit. */
const sendRecordsMax = 2_000
export const batchHeaderBytes = 100
export const retryPause = { baseMs: 25, maxMs: 500 }
/** After this many tries of one batch the client itself may be broken, and is renewed. */
const renewAfter = 3

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
  sender: Sender
  facts: TopicFactsCache
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

/** The returned function settles every append of the batch that it is given. */
export function createDelivery({ topic, partition, sender, facts }: DeliveryParts) {
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
    // Counted back from the end: where others wrote between the chunks of this batch, the last offset is true.
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
      if (attempt >= renewAfter) sender.renew()
      await sleep(backoffMs(attempt, retryPause))
    }
  }
  /** The answer to what no repetition can change; null for everything else, which is repeated. */
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
  return deliver
}

export function tooLarge(topic: string, bytesMax?: number): AppError {
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
