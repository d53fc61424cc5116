/**
 * The queue of one topic-partition. One batch is in flight at a time and is repeated unchanged until it is acknowledged
 * or every caller in it has given up, so nothing ever overtakes it; then what is appended next, a fence if nothing else
 * comes, refuses what is left of it.
 */

import { backoffMs, sleep } from '#lib/backoff.ts'
import type { AppError } from '#lib/errors.ts'
import { type Append, batchHeaderBytes, createDelivery, retryPause, tooLarge } from './batch-delivery.ts'
import { partitionNotFound } from './faults.ts'
import type { Identities } from './identities.ts'
import { createPartitionWriter } from './partition-writer.ts'
import type { Sender } from './sender.ts'
import type { TopicFacts, TopicFactsCache } from './topic-facts.ts'

const queueLimits = { bytesMax: 32 * 1_048_576, recordsMax: 50_000 }
/** What one send takes from the queue. */
const batchLimits = { records: 500, bytes: 800_000 }

export interface PartitionQueue {
  /** False when the queue is full. An append that is larger than the whole queue passes when the queue is empty. */
  offer(append: Append): boolean
  /** Resolves when nothing waits and nothing is in flight. */
  idle(): Promise<void>
}

interface PartitionQueueParts {
  topic: string
  partition: number
  sender: Sender
  identities: Identities
  facts: TopicFactsCache
  /** Called when bytes enter (positive) or leave (negative) the queue. */
  count(bytes: number): void
  /** Ends the tries to append a fence. */
  stop: AbortSignal
}

export function createPartitionQueue(parts: PartitionQueueParts): PartitionQueue {
  const { topic, partition, facts, count, stop } = parts
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
  async function factsNow(): Promise<TopicFacts> {
    let known = await facts.get(topic)
    if (partition < 0 || partition >= known.partitions) known = await facts.refresh(topic)
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
    offer(append) {
      const bytes = queued.bytes + append.bytes
      const records = queued.records + append.records.length
      if (queue.length > 0 && (bytes > queueLimits.bytesMax || records > queueLimits.recordsMax)) return false
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
