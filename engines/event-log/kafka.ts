/**
 * The event log on Kafka; its parts are in kafka/. Records are appended through one queue for each topic-partition, which run in
 * parallel and share one bound.
 */

import { withTimeout } from '#lib/backoff.ts'
import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'
import { type AppError, overloaded } from '#lib/errors.ts'
import { logUnavailable, partitionNotFound } from './faults.ts'
import { createRepeatedCalls } from './kafka/calls.ts'
import { createCluster, type KafkaOptions } from './kafka/cluster.ts'
import { openConsumer } from './kafka/consumer.ts'
import { createGroups } from './kafka/groups.ts'
import { createLogRanges } from './kafka/log-ranges.ts'
import { type Append, createPartitionQueue, measure, type PartitionQueue } from './kafka/partition-queue.ts'
import { createOwnIdentities, type Identities, takeIdentities } from './kafka/partition-writer.ts'
import { createQuietFetcher } from './kafka/quiet-fetcher.ts'
import type { ReaderParts } from './kafka/reader.ts'
import { createProduceClient, createSender, type Sender } from './kafka/sender.ts'
import { openTail } from './kafka/tail.ts'
import { createTopicFacts, createTopics, type TopicFactsCache } from './kafka/topics.ts'
import type { AppendOptions, EventLog, NewRecord } from './port.ts'

export type { KafkaOptions }

const fetchBytesMax = 1_048_576
const pingTimeoutMs = deadlines.engine.pingMs

/**
 * Resolves at once, also while no broker answers. Then calls fail with AppError `log_unavailable` after their
 * time-outs, readers wait, and all go on by themselves when the brokers are back.
 */
export async function openKafkaLog(options: KafkaOptions): Promise<EventLog> {
  const { log } = options
  const cluster = createCluster(options)
  const calls = createRepeatedCalls()
  const ranges = createLogRanges(cluster)
  const facts = createTopicFacts(calls.ask, cluster, log)
  const topics = createTopics({ ask: calls.ask, cluster, ranges, facts })
  const groups = createGroups(calls, cluster, ranges)
  const produceClient = createProduceClient(cluster)
  const sender = createSender(cluster.topics, produceClient)
  const producer = createProducer(sender, facts, createOwnIdentities(produceClient.identify))
  const readers = new Set<{ close(): Promise<void> }>()
  let closing: Promise<void> | undefined

  const quiet = createQuietFetcher(cluster)
  const reading: ReaderParts = {
    cluster,
    quiet,
    ranges,
    log,
    isCompacted: async (topic) => (await topics.describeTopic(topic))?.cleanup === 'compact',
  }
  function remember<T extends { close(): Promise<void> }>(reader: T): T {
    readers.add(reader)
    const close = reader.close
    reader.close = () => {
      readers.delete(reader)
      return close()
    }
    return reader
  }
  async function close(): Promise<void> {
    await Promise.all([producer.close(), ...[...readers].map((reader) => reader.close())])
    await Promise.all([produceClient.close(), quiet.close()])
    calls.close()
    await cluster.close()
  }
  function appendOf(producer: Producer): EventLog['append'] {
    return async (topic, partition, records, options = {}) => {
      const { timeoutMs } = options
      if (records.length > 0) return producer.append(topic, partition, records, options)
      const range = (await topics.offsets(topic, timeoutMs)).find((one) => one.partition === partition)
      if (!range) throw partitionNotFound(topic, partition)
      return range.end
    }
  }
  return {
    driver: 'kafka',
    clientId: options.clientId,
    ...topics,
    ...groups,
    append: appendOf(producer),
    async fencedWriter(name) {
      const writer = createProducer(
        sender,
        facts,
        await takeIdentities(produceClient.identify, name, calls.ask),
      )
      return remember({ append: appendOf(writer), close: writer.close })
    },
    consume: async ({ listener, ...given }) =>
      remember(openConsumer({ fetchBytesMax, ...given }, listener, reading)),
    tail: async (tail) => remember(openTail(tail, reading)),
    /** Other brokers are asked until the time is over. */
    ping: (timeoutMs = pingTimeoutMs) => calls.ask(async () => void (await cluster.metadata([])), timeoutMs),
    close() {
      closing ??= close()
      return closing
    },
  }
}

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
  /** Queues of which nothing goes before its time, or before something else goes to their broker. */
  const patient = new Map<PartitionQueue, NodeJS.Timeout>()
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
  function startPatient(queue: PartitionQueue): void {
    clearTimeout(patient.get(queue))
    patient.delete(queue)
    queue.start()
  }
  /** What waits for the same broker shares the request. */
  function takeAlong(queue: PartitionQueue): void {
    const node = queue.lastNode()
    for (const other of patient.keys()) {
      if (other === queue || (node !== undefined && other.lastNode() === node)) startPatient(other)
    }
  }
  return {
    append(
      topic: string,
      partition: number,
      records: NewRecord[],
      { timeoutMs = appendTimeoutMs, patienceMs = 0 }: AppendOptions = {},
    ): Promise<number> {
      if (closed) return Promise.reject(logUnavailable())
      return new Promise<number>((resolve, reject) => {
        const append = createAppend(records, timeoutMs, resolve, reject)
        const fits = waitingBytes === 0 || waitingBytes + append.bytes <= waitingBytesMax
        const queue = queueOf(topic, partition)
        if (!fits || !queue.offer(append, patienceMs > 0)) {
          append.reject(overloaded('Too much waits to be written to this partition'))
        } else if (patienceMs === 0) takeAlong(queue)
        else if (queue.rests() && !patient.has(queue)) {
          patient.set(
            queue,
            setTimeout(() => startPatient(queue), patienceMs),
          )
        }
      })
    },
    async close() {
      closed = true
      for (const queue of [...patient.keys()]) startPatient(queue)
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
