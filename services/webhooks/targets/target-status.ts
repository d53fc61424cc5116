/** The state of every webhook target, for the command line and for health: its backlog, since when, and the last outcome. */

import type { Groups, Log, StoredRecord } from '#engines/event-log/port.ts'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { decodeMetadata } from '#runtime/consume/metadata.ts'
import { readFirst } from '#runtime/follow/read-records.ts'
import type { Codec, Message, TopicLocation } from '#runtime/publish/messages.ts'
import type { Schemas, WebhookAttempt, WebhookDelivery } from '#schemas/types.ts'
import { webhooksAttempts, webhooksDeliveries } from '#topics/catalog.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import { readAttempts } from '../attempts/read-attempts.ts'
import { readAssignments } from './assignment.ts'

export const courierGroup = 'webhook-courier'

/** The delivery that the couriers work on; those behind it wait for it. */
export interface TargetHead {
  sequence: number
  offset: number
  receivedAtMs: number
  event: string
  agent: string
  taskId: string
  webhookId: string
}

export interface TargetStatus {
  target: string
  /** Null until the relay or a fire gave it one. */
  partition: number | null
  /** Accepted, not yet delivered or parked. */
  lag: number
  /** The oldest of them. */
  head: TargetHead | null
  /** What a courier reported last; null when none ever did. */
  lastReport: Pick<WebhookAttempt, 'breaker' | 'next_attempt_at' | 'occurred_at'> | null
  /** The last attempt of all. */
  last: WebhookAttempt | null
}

interface StatusParts {
  eventLog: Log & Groups
  relational: SqlExecutor
  locations: ReadonlyMap<string, TopicLocation>
  codec: Codec
  signal: AbortSignal
}

/** Records of webhooks.attempts read in each partition. */
const lookedThroughMax = 5_000
const deliveries = webhooksDeliveries
const attempts = webhooksAttempts

/** Every target that owns a partition, and those of `names` that do not yet, by name; and the couriers in the group now. */
export async function readTargetStatuses(parts: StatusParts, names: Iterable<string>) {
  const assignments = await readAssignments(parts.relational)
  const all = [...new Set([...assignments.keys(), ...names])].sort()
  const { couriers, waiting } = await readWaiting(parts, new Set(assignments.values()))
  const [heads, reported] = await Promise.all([readHeads(parts, waiting), readReported(parts, all)])
  const targets = all.map((target): TargetStatus => {
    const partition = assignments.get(target) ?? null
    const place = partition === null ? undefined : waiting.get(partition)
    return {
      target,
      partition,
      lag: place?.lag ?? 0,
      head: headOf(place && heads.get(place.partition)),
      lastReport: newer(reported.states.get(target), reported.tries.get(target)),
      last: reported.tries.get(target) ?? null,
    }
  })
  return { couriers, targets }
}

export interface WaitingPartition {
  partition: number
  /** The first offset that is not settled; the end of the log when nothing waits. */
  position: number
  end: number
  lag: number
}

/** How far the couriers are in these partitions. */
export async function readWaiting(
  { eventLog, locations }: Pick<StatusParts, 'eventLog' | 'locations'>,
  partitions: ReadonlySet<number>,
): Promise<{ couriers: number; waiting: Map<number, WaitingPartition> }> {
  const topic = physicalName(locations, deliveries)
  const [state, ranges] = await Promise.all([
    eventLog.groupState(courierGroup, topic),
    eventLog.offsets(topic),
  ])
  const committed = new Map(state.committed.map((one) => [one.partition, one]))
  const waiting = new Map<number, WaitingPartition>()
  for (const { partition, start, end } of ranges) {
    if (!partitions.has(partition)) continue
    const commit = committed.get(partition)
    const position = Math.max(commit?.offset ?? start, start)
    // Where agents are lanes of their own, some records beyond the position are done.
    const ahead = commit ? (decodeMetadata(commit.metadata, commit.offset)?.settled.size ?? 0) : 0
    waiting.set(partition, { partition, position, end, lag: Math.max(0, end - position - ahead) })
  }
  return { couriers: state.members, waiting }
}

/** The record at each position where something waits. */
async function readHeads(
  parts: StatusParts,
  waiting: ReadonlyMap<number, WaitingPartition>,
): Promise<Map<number, Message<WebhookDelivery>>> {
  const behind = [...waiting.values()].filter(({ lag }) => lag > 0)
  const found = await readFirst({
    eventLog: parts.eventLog,
    topic: physicalName(parts.locations, deliveries),
    positions: new Map(behind.map(({ partition, position }) => [partition, position])),
    signal: parts.signal,
  })
  const heads = new Map<number, Message<WebhookDelivery>>()
  for (const [partition, record] of found) {
    const message = await readable(parts.codec, deliveries, record)
    if (message) heads.set(partition, message)
  }
  return heads
}

function headOf(message: Message<WebhookDelivery> | undefined): TargetHead | null {
  if (!message?.value) return null
  const { offset, value } = message
  const { event, agent, task_id: taskId, webhook_id: webhookId } = value
  const sequence = value.sequence ?? offset
  return { sequence, offset, receivedAtMs: value.received_at, event, agent, taskId, webhookId }
}

function newer(a: WebhookAttempt | undefined, b: WebhookAttempt | undefined): WebhookAttempt | null {
  if (a === undefined || b === undefined) return a ?? b ?? null
  return b.occurred_at >= a.occurred_at ? b : a
}

/** The newest states and attempts of the targets. */
async function readReported(
  { eventLog, locations, codec, signal }: StatusParts,
  targets: readonly string[],
): Promise<{ states: Map<string, WebhookAttempt>; tries: Map<string, WebhookAttempt> }> {
  const states = new Map<string, WebhookAttempt>()
  const tries = new Map<string, WebhookAttempt>()
  const decode = async (record: StoredRecord) => (await readable(codec, attempts, record))?.value
  const place = {
    physicalName: physicalName(locations, attempts),
    partitions: locations.get(attempts.name)?.partitions ?? 1,
  }
  await readAttempts({ eventLog, place, decode, lookedThroughMax, signal }, new Set(targets), (attempt) => {
    const reports = attempt.kind === 'state' ? states : tries
    reports.set(attempt.target, attempt)
  })
  return { states, tries }
}

/** Null for a record that cannot be decoded. */
async function readable<S extends SchemaName>(
  codec: Codec,
  topic: Topic<S>,
  record: StoredRecord,
): Promise<Message<Schemas[S]> | null> {
  try {
    return await codec.decode(topic, record)
  } catch {
    return null
  }
}

function physicalName(locations: ReadonlyMap<string, TopicLocation>, topic: Topic): string {
  return locations.get(topic.name)?.physicalName ?? topic.name
}
