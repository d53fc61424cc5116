/** Reads the attempts that couriers reported: once or as they arrive, and the last state of each target. */

import type { Log, StoredRecord } from '#engines/event-log/port.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { type Following, type FollowParts, followTopic } from '#runtime/follow/follow-topic.ts'
import { readRecords } from '#runtime/follow/read-records.ts'
import type { Codec, Publisher } from '#runtime/publish/messages.ts'
import type { WebhookAttempt } from '#schemas/types.ts'
import { webhooksAttempts } from '#topics/catalog.ts'

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
