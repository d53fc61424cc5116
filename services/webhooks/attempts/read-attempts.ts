/** Reads the attempts that couriers reported: once or as they arrive, with metrics, and the last state of each target. */

import { Counter, Histogram, type Registry } from 'prom-client'
import type { Log, StoredRecord } from '#engines/event-log/port.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { type Following, type FollowParts, followTopic } from '#runtime/follow/follow-topic.ts'
import { readRecords } from '#runtime/follow/read-records.ts'
import type { Codec, Publisher } from '#runtime/publish/messages.ts'
import type { WebhookAttempt } from '#schemas/types.ts'
import { webhooksAttempts } from '#topics/catalog.ts'
import type { WatchedTargets } from '../targets/targets-file.ts'

/** Attempts of each partition from before the start, where all are followed. */
const readBackMax = 500

interface ReadParts {
  eventLog: Log
  /** Where the topic is. */
  place: Pick<ReturnType<Publisher['locationOf']>, 'physicalName' | 'partitions'>
  /** Undefined for a record that cannot be decoded. */
  decode(record: StoredRecord): Promise<WebhookAttempt | null | undefined>
  /** Newest attempts of a partition, which several targets may share, that are looked through. */
  lookedThroughMax: number
  signal: AbortSignal
}

/** Visits the newest attempts of these targets, those of each in their order. */
export async function readAttempts(
  { eventLog, place, decode, lookedThroughMax, signal }: ReadParts,
  targets: ReadonlySet<string>,
  visit: (attempt: WebhookAttempt) => void,
): Promise<void> {
  if (targets.size === 0) return
  const asked = new Set([...targets].map((target) => partitionOf(Buffer.from(target), place.partitions)))
  await readRecords({
    eventLog,
    topic: place.physicalName,
    startOf: ({ partition, start, end }) =>
      asked.has(partition) ? Math.max(start, end - lookedThroughMax) : end,
    signal,
    async records(records) {
      for (const record of records) {
        if (!targets.has(record.key?.toString('utf8') ?? '')) continue
        const attempt = await decode(record)
        if (attempt) visit(attempt)
      }
    },
  })
}

/** Calls `take` with the newest attempts of all targets and with every later one; `isEarlier`: from before this began. */
export async function followAttempts(
  parts: FollowParts & { codec: Codec },
  take: (attempt: WebhookAttempt, isEarlier: boolean) => void,
): Promise<Following> {
  /** By partition, where attempts from before this start end. */
  const since = new Map<number, number>()
  return followTopic(parts, webhooksAttempts, {
    from({ partition, start, end }) {
      since.set(partition, end)
      return Math.max(start, end - readBackMax)
    },
    onMessage({ partition, offset, value }) {
      if (value) take(value, offset < (since.get(partition) ?? 0))
    },
  })
}

export interface LastSeen {
  /** HTTP status of the last call; null without an answer, or before the first call. */
  status: number | null
  /** The last call; null when there was none. */
  call: { answered: boolean; tookMs: number; atMs: number } | null
  breaker: string
  /** The first event that waits for another try, as far as it was reported; null while none does. */
  head: { sequence: number | null; receivedAtMs: number | null; nextAttemptAtMs: number | null } | null
}

export function createLastSeen() {
  const seen = new Map<string, LastSeen>()
  return {
    last: (target: string): LastSeen | null => seen.get(target) ?? null,
    forget: (target: string) => void seen.delete(target),
    take(attempt: WebhookAttempt): void {
      const before = seen.get(attempt.target) ?? null
      const { took_ms: tookMs, status, occurred_at: atMs } = attempt
      const called = attempt.kind !== 'state' && tookMs !== null
      seen.set(attempt.target, {
        status: called ? status : (before?.status ?? null),
        call: called ? { answered: status !== null, tookMs, atMs } : (before?.call ?? null),
        breaker: attempt.breaker,
        head: headAfter(before?.head ?? null, attempt),
      })
    },
  }
}

/** The lanes of one target report events of their own: the lowest sequence is the head, until it is settled. */
function headAfter(head: LastSeen['head'], attempt: WebhookAttempt): LastSeen['head'] {
  const { kind, sequence } = attempt
  const reported = {
    sequence,
    receivedAtMs: attempt.head_received_at,
    nextAttemptAtMs: attempt.next_attempt_at,
  }
  if (kind === 'state') return attempt.head_received_at === null ? null : reported
  if (kind === 'retry') return head === null || (sequence ?? 0) <= (head.sequence ?? 0) ? reported : head
  return sequence === head?.sequence ? null : head
}

const outcomes = ['success', 'retry', 'dead_letter'] as const

/** Follows the attempts of every courier from now on: metrics count attempts since the start. */
export async function openAttempts(
  parts: FollowParts & {
    codec: Codec
    metrics: Registry
    targets: Pick<WatchedTargets, 'current' | 'onChange'>
  },
) {
  const { targets } = parts
  const metrics = createAttemptMetrics(parts.metrics)
  const lastSeen = createLastSeen()
  const followed = new Set<string>()
  let named = new Set<string>()
  function follow(): void {
    const now = new Set(targets.current().targets.keys())
    for (const target of named) {
      if (now.has(target)) continue
      metrics.forget(target)
      lastSeen.forget(target)
    }
    for (const target of now) metrics.begin(target)
    named = now
  }
  function take(attempt: WebhookAttempt): void {
    // A courier may still report a target that was removed: its series would stay for ever.
    if (!named.has(attempt.target)) return
    metrics.take(attempt)
    followed.add(attempt.target)
    lastSeen.take(attempt)
  }
  /** Attempts from before this start count for health, as long as nothing newer came. */
  function takeEarlier(attempt: WebhookAttempt): void {
    if (named.has(attempt.target) && !followed.has(attempt.target)) lastSeen.take(attempt)
  }

  follow()
  targets.onChange(follow)
  const following = await followAttempts(parts, (attempt, isEarlier) =>
    isEarlier ? takeEarlier(attempt) : take(attempt),
  )
  return { last: lastSeen.last, close: following.close }
}

function createAttemptMetrics(registry: Registry) {
  const delivered = new Counter({
    name: 'webhook_delivered_total',
    help: 'Attempts by their outcome: success, retry (it will be tried again) or dead_letter (given up)',
    labelNames: ['target', 'status'],
    registers: [registry],
  })
  const latency = new Histogram({
    name: 'webhook_latency_seconds',
    help: 'Time of one call of a target, however it ended',
    labelNames: ['target'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  })
  return {
    /** A series that is absent until its first event hides that event from rates. */
    begin(target: string) {
      for (const status of outcomes) delivered.inc({ target, status }, 0)
      latency.zero({ target })
    },
    forget(target: string) {
      for (const status of outcomes) delivered.remove({ target, status })
      latency.remove({ target })
    },
    take({ target, kind, took_ms }: WebhookAttempt) {
      const status = outcomes.find((outcome) => outcome === kind)
      if (status === undefined) return
      delivered.inc({ target, status })
      if (took_ms !== null) latency.observe({ target }, took_ms / 1_000)
    },
  }
}
