/** Appends records to Kafka through one queue for each topic-partition, which run in parallel and share one bound. */

import { withTimeout } from '#lib/backoff.ts'
import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { logUnavailable } from '../faults.ts'
import type { NewRecord } from '../port.ts'
import { type Append, createPartitionQueue, measure, type PartitionQueue } from './partition-queue.ts'
import type { Identities } from './partition-writer.ts'
import type { Sender } from './sender.ts'
import type { TopicFactsCache } from './topics.ts'

const appendTimeoutMs = deadlines.engine.logAppendMs
/** Bytes that wait in all queues together. */
const waitingBytesMax = budgets.log.waitingBytes
const drainTimeoutMs = deadlines.engine.logDrainMs

export type Producer = ReturnType<typeof createProducer>

/** What it appends is written under `identities`. */
export function createProducer(sender: Sender, facts: TopicFactsCache, identities: Identities) {
  /** One for each partition that was ever written: it knows its sequence. */
  const queues = new Map<string, PartitionQueue>()
  const stop = new AbortController()
  let waitingBytes = 0
  let closed = false

  function queueOf(topic: string, partition: number): PartitionQueue {
    const name = `${topic}/${partition}`
    let queue = queues.get(name)
    if (!queue) {
      const count = (bytes: number) => {
        waitingBytes += bytes
      }
      queue = createPartitionQueue({
        topic,
        partition,
        sender,
        identities,
        facts,
        count,
        stop: stop.signal,
      })
      queues.set(name, queue)
    }
    return queue
  }
  return {
    append(
      topic: string,
      partition: number,
      records: NewRecord[],
      timeoutMs: number = appendTimeoutMs,
    ): Promise<number> {
      if (closed) return Promise.reject(logUnavailable())
      return new Promise<number>((resolve, reject) => {
        const append = createAppend(records, timeoutMs, resolve, reject)
        const fits = waitingBytes === 0 || waitingBytes + append.bytes <= waitingBytesMax
        if (!fits || !queueOf(topic, partition).offer(append)) append.reject(overloaded())
      })
    },
    async close() {
      closed = true
      const drained = Promise.all([...queues.values()].map((queue) => queue.idle()))
      await withTimeout(drained, drainTimeoutMs, () => logUnavailable()).catch(() => {})
      stop.abort()
    },
  }
}

function createAppend(
  records: NewRecord[],
  timeoutMs: number,
  resolve: (offset: number) => void,
  reject: (error: AppError) => void,
): Append {
  const settle = () => {
    append.settled = true
    clearTimeout(deadline)
  }
  const append: Append = {
    records,
    ...measure(records),
    settled: false,
    resolve(offset) {
      settle()
      resolve(offset)
    },
    reject(error) {
      settle()
      reject(error)
    },
  }
  const deadline = setTimeout(() => append.reject(logUnavailable()), timeoutMs)
  return append
}

function overloaded(): AppError {
  return new AppError(
    'overloaded',
    'Too much waits to be written to this partition; try again in a second.',
    {
      retryAfter: 1,
    },
  )
}
