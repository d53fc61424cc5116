/**
 * Keeps a kafkajs consumer running until it is closed: one that crashed is thrown away and a new one joins. Batches,
 * assignments and heartbeats of the running consumer go to the handlers, those of an old one never do.
 */

import type { Batch, Consumer, Kafka } from 'kafkajs'
import type { Logger } from 'pino'
import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { type Claim, createStickyAssigner } from './assigner.ts'
import { type Membership, type MembershipListener, watchMembership } from './membership.ts'

export interface MemberHandlers extends MembershipListener {
  /** What is owned now, for the next assignment. */
  claim(): Omit<Claim, 'memberId'>
  /** kafkajs has taken over the assignment and has not fetched yet: the time to seek and to pause. */
  joined(): void
  /** Must return at once. */
  batch(batch: Batch): void
  /** A fetch brought nothing but what Kafka hides (markers, compacted records) up to offset `last`. */
  skipped(partition: number, first: number | null, last: number): void
  /** Not a member any more; the next consumer joins as a new one. */
  ended(): void
}

export interface Member extends Closeable {
  /** Acts on the running consumer; nothing happens while there is none (joining sets the state again). */
  act(action: (consumer: Consumer) => void): void
  membership(): Membership | undefined
}

export interface MemberOptions {
  group: string
  topic: string
  sessionTimeoutMs: number
  fetchBytesMax: number
}

/** A fetch that waits is not cancelled by resume, seek or close: they wait for it. */
const fetchWaitMs = 150
const metadataAgeMs = 5_000
const joinWaitMs = 2_000
const leaveTimeoutMs = 5_000
const rejoinPause = { baseMs: 200, maxMs: 2_000 }

interface Run {
  consumer: Consumer
  membership: Membership | undefined
  begun: boolean
  joined: Promise<void>
  ended: Promise<void>
  end(): void
}

export function startMember(
  kafka: Kafka,
  options: MemberOptions,
  handlers: MemberHandlers,
  log: Logger,
): Member {
  let current: Run | undefined
  let closing: Promise<void> | undefined
  const stop = new AbortController()

  async function live(): Promise<void> {
    for (let failures = 0; !stop.signal.aborted; failures++) {
      const run = createRun(kafka, options, handlers, () => current === run && !stop.signal.aborted)
      current = run
      try {
        await begin(run, options.topic, stop.signal)
        if (run.begun) await run.ended
      } catch (error) {
        log.warn(
          { group: options.group, error: describeError(error) },
          'the consumer could not start; it tries again',
        )
      }
      if (stop.signal.aborted) return
      current = undefined
      handlers.ended()
      void leave(run)
      await sleep(backoffMs(Math.min(failures, 4), rejoinPause), stop.signal)
    }
  }
  async function close(): Promise<void> {
    stop.abort()
    const run = current
    if (!run) return
    // A consumer that is disconnected while it joins would join all the same, and stay.
    if (run.begun) await Promise.race([run.joined, run.ended, sleep(joinWaitMs)])
    if (!(await leave(run)))
      log.info({ group: options.group }, 'the consumer was cut off before it could leave the group')
    run.end()
  }
  void live()
  return {
    act(action) {
      try {
        if (current?.begun) action(current.consumer)
      } catch {
        // Between two consumers of kafkajs: joining sets everything again.
      }
    },
    membership: () => current?.membership,
    close() {
      closing ??= close()
      return closing
    },
  }
}

async function begin(run: Run, topic: string, stop: AbortSignal): Promise<void> {
  await run.consumer.connect()
  if (stop.aborted) return
  await run.consumer.subscribe({ topic, fromBeginning: true })
  if (stop.aborted) return
  run.begun = true
  await run.consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: true,
    eachBatch: async ({ batch }) => batchHandlers.get(run)?.(batch),
  })
}

/** Where the batches of a run go. */
const batchHandlers = new WeakMap<Run, (batch: Batch) => void>()

/** False when it had to be cut off: then its session runs out. */
async function leave(run: Run): Promise<boolean> {
  try {
    await withTimeout(run.consumer.disconnect(), leaveTimeoutMs, () => new Error('leaving takes too long'))
    return true
  } catch {
    return false
  } finally {
    run.membership?.end()
  }
}

function createRun(
  kafka: Kafka,
  options: MemberOptions,
  handlers: MemberHandlers,
  isCurrent: () => boolean,
): Run {
  const joined = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  let lastSign = Date.now()
  const listener: MembershipListener = {
    assigned(membership, at) {
      lastSign = Date.now()
      if (isCurrent()) handlers.assigned(membership, at)
    },
    heartbeat(at) {
      lastSign = Date.now()
      if (isCurrent()) handlers.heartbeat(at)
    },
    outOfRange(partition) {
      if (isCurrent()) handlers.outOfRange(partition)
    },
  }
  let membership: Membership | undefined
  const consumer = kafka.consumer({
    ...settingsOf(options),
    partitionAssigners: [
      ({ cluster }) => {
        membership = watchMembership(cluster, options, listener)
        return createStickyAssigner(cluster, () => handlers.claim())
      },
    ],
  })
  const run: Run = { consumer, membership, begun: false, joined: joined.promise, ended: ended.promise, end }
  batchHandlers.set(run, (batch) => {
    if (isCurrent()) handlers.batch(batch)
  })
  function end(): void {
    clearInterval(watchdog)
    ended.resolve()
  }
  // kafkajs reports that it gives up, except where it hangs while it does so.
  const stuckMs = Math.max(60_000, 6 * options.sessionTimeoutMs)
  const watchdog = setInterval(() => {
    if (Date.now() - lastSign > stuckMs) end()
  }, 5_000)
  consumer.on('consumer.group_join', () => {
    joined.resolve()
    if (isCurrent()) handlers.joined()
    else setTimeout(leave, 100, run)
  })
  consumer.on('consumer.crash', end)
  consumer.on('consumer.end_batch_process', ({ payload }) => {
    if (payload.batchSize > 0 || !isCurrent()) return
    const first = payload.firstOffset as string | null
    handlers.skipped(payload.partition, first === null ? null : Number(first), Number(payload.lastOffset))
  })
  return run
}

function settingsOf(options: MemberOptions) {
  return {
    groupId: options.group,
    sessionTimeout: options.sessionTimeoutMs,
    rebalanceTimeout: Math.max(options.sessionTimeoutMs, 10_000),
    heartbeatInterval: Math.min(1_000, Math.round(options.sessionTimeoutMs / 5)),
    maxBytesPerPartition: options.fetchBytesMax,
    maxWaitTimeInMs: fetchWaitMs,
    metadataMaxAge: metadataAgeMs,
    allowAutoTopicCreation: false,
    // About as long as a cluster takes to notice a dead broker: until then the member keeps its partitions.
    retry: { retries: 14, initialRetryTime: 100, maxRetryTime: 1_000, restartOnFailure: async () => false },
  }
}
