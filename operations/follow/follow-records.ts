/**
 * Looks through the newest records of the log for those of one subject, and for what became of its webhook deliveries.
 */

import { type Static, Type } from 'typebox'
import type { PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { recordBytes } from '#runtime/follow/follow-topic.ts'
import { readRecords } from '#runtime/follow/read-records.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import type { Schemas } from '#schemas/types.ts'
import { operationHeader } from '#services/vectors/write/failures.ts'
import { idempotencyKeyOf, webhookEvents } from '#services/webhooks/event.ts'
import { catalog, fleetEvents, runsEvents, webhooksDeliveries } from '#topics/catalog.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { OperatedPlatform, OperationContext } from '../operation.ts'
import { orNull } from '../shapes.ts'
import { attempt, visitAttempts } from '../webhooks/attempts.ts'
import type { DeliveryName, Subject, SubjectKind } from './subject.ts'

/** Records that are read at most, the newest of each partition. */
export const recordsMax = 20_000
export const windowMs = 60_000
/** Bound of kept values; beyond it records are found without them, and the answer says that it is not complete. */
const foundBytesMax = 32 * 1024 * 1024

/** Topics of what the platform says about itself; attempts are looked up for each delivery. */
const silent = ['vectors.progress', 'webhooks.attempts']
const runTopics = /^(runs\.|fleet\.events$|webhooks\.deliveries$)/

export interface Found {
  /** The oldest first. */
  records: { topic: Topic; record: StoredRecord }[]
  /** As what the id was found; null: as nothing. */
  kind: SubjectKind | null
  /** Records that were looked at. */
  read: number
  /** False: older records of that time were not read. */
  complete: boolean
}

/** `id` is what was asked for: where nothing else is known, events and deliveries are found by it, too. */
export async function findRecords(
  { platform, signal }: OperationContext,
  id: string,
  subject: Subject,
): Promise<Found> {
  const { eventLog } = platform.engines
  const isOf = matchOf(platform, id, subject)
  const topics = await Promise.all(
    catalog
      .filter(({ name }) => !silent.includes(name))
      .map(async (topic) => {
        const { physicalName } = platform.publisher.locationOf(topic)
        return { topic, physicalName, ranges: await eventLog.offsets(physicalName) }
      }),
  )
  const most = shareOf(topics.flatMap(({ ranges }) => ranges.map(({ start, end }) => end - start)))
  const fromMs = subject.aroundMs === null ? 0 : subject.aroundMs - windowMs
  const found: Found = { records: [], kind: null, read: 0, complete: true }
  let foundBytes = 0
  await Promise.all(
    topics
      .filter(({ ranges }) => ranges.some(({ start, end }) => end > start))
      .map(async ({ topic, physicalName }) => {
        const oldest = new Map<number, number>()
        const startOf = ({ start, end }: PartitionRange) => Math.max(start, end - most)
        async function look(record: StoredRecord): Promise<void> {
          if (record.hidden) return
          if (!oldest.has(record.partition)) oldest.set(record.partition, record.timestamp)
          found.read += 1
          const kind = await isOf(topic, record)
          if (kind === null) return
          found.kind ??= kind
          foundBytes += recordBytes(record)
          if (foundBytes > foundBytesMax) found.complete = false
          else found.records.push({ topic, record })
        }
        const ranges = await readRecords({
          eventLog,
          topic: physicalName,
          startOf,
          signal,
          async records(records) {
            for (const record of records) await look(record)
          },
        })
        const isCut = ({ partition, start, end }: PartitionRange) =>
          end - start > most && (oldest.get(partition) ?? 0) > fromMs
        if (ranges.some(isCut)) found.complete = false
      }),
  )
  found.records.sort((a, b) => a.record.timestamp - b.record.timestamp)
  return found
}

/** How many records of each partition may be read, so that all together are at most `recordsMax`. */
export function shareOf(sizes: readonly number[], total = recordsMax): number {
  let left = total
  const sorted = [...sizes].sort((a, b) => a - b)
  for (const [at, size] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - at))
    if (size > share) return share
    left -= size
  }
  return total
}

type Match = (topic: Topic, record: StoredRecord) => Promise<SubjectKind | null>

function matchOf(platform: Pick<OperatedPlatform, 'codec'>, id: string, subject: Subject): Match {
  const { kind, requestId, operation, runs, dispatch, delivery } = subject
  const runIds = runs.map(({ runId }) => Buffer.from(runId))
  const goalKey = dispatch && `goal/${dispatch.goalId}`
  const asked = kind === 'request' ? Buffer.from(id) : null
  return async (topic, record) => {
    const { headers, key } = record
    if (requestId !== null && headers[headerNames.requestId] === requestId) return kind
    if (operation !== null && headers[operationHeader] === operation) return kind
    if (goalKey !== null && topic.name === 'hub.records' && key?.toString('utf8') === goalKey) return kind
    if (runIds.length > 0 && runTopics.test(topic.name)) {
      return (await isOfRuns(platform, topic, record, runIds)) ? kind : null
    }
    if (delivery && topic.name === webhooksDeliveries.name && key?.toString('utf8') === delivery.target) {
      const value = await decodedValue(platform, webhooksDeliveries, record)
      return (value?.sequence ?? record.offset) === delivery.sequence ? kind : null
    }
    return asked === null ? null : kindByName(platform, topic, record, id, asked)
  }
}

/** Run ids are random: whatever holds one is about it. Of a run's events those that are pieces come again as a whole. */
async function isOfRuns(
  platform: Pick<OperatedPlatform, 'codec'>,
  topic: Topic,
  record: StoredRecord,
  runIds: readonly Buffer[],
): Promise<boolean> {
  if (!runIds.some((runId) => record.value?.includes(runId))) return false
  if (topic.name !== runsEvents.name) return true
  const event = await decodedValue(platform, runsEvents, record)
  return event !== null && (event.seq !== null || event.status !== null)
}

/** Events and deliveries have names of their own: the event id of a record, the webhook id, the idempotency key. */
async function kindByName(
  platform: Pick<OperatedPlatform, 'codec'>,
  topic: Topic,
  record: StoredRecord,
  id: string,
  bytes: Buffer,
): Promise<SubjectKind | null> {
  if (record.headers[headerNames.eventId] === id) return 'event'
  if (topic.name === fleetEvents.name) {
    if (!webhookEvents.some((event) => id.endsWith(`-${event}`))) return null
    const event = await decodedValue(platform, fleetEvents, record)
    return event && idempotencyKeyOf(event) === id ? 'delivery' : null
  }
  if (topic.name !== webhooksDeliveries.name || !record.value?.includes(bytes)) return null
  const delivery = await decodedValue(platform, webhooksDeliveries, record)
  return delivery?.webhook_id === id || delivery?.idempotency_key === id ? 'delivery' : null
}

/** Null for a record that cannot be decoded. */
async function decodedValue<S extends SchemaName>(
  { codec }: Pick<OperatedPlatform, 'codec'>,
  topic: Topic<S>,
  record: StoredRecord,
): Promise<Schemas[S] | null> {
  try {
    return (await codec.decode(topic, record)).value
  } catch {
    return null
  }
}

/** Followed at most. */
const deliveriesMax = 50
/** The newest attempts of one delivery that are shown. */
const attemptsShownMax = 20

export const followedDelivery = Type.Object({
  target: Type.String(),
  sequence: Type.Integer({ description: 'X-Sequence.' }),
  event: orNull(Type.String(), 'null: the log holds the delivery no longer.'),
  attempts: Type.Array(attempt, { description: 'The oldest first; of many the newest.' }),
})
type FollowedDelivery = Static<typeof followedDelivery>

export async function deliveriesOf(
  context: OperationContext,
  subject: Subject,
  records: Found['records'],
): Promise<FollowedDelivery[]> {
  const found = new Map<string, FollowedDelivery>()
  const add = (delivery: Omit<FollowedDelivery, 'attempts'>) => {
    if (found.size < deliveriesMax) found.set(nameOf(delivery), { ...delivery, attempts: [] })
  }
  if (subject.delivery) add({ ...subject.delivery, event: null })
  for (const { topic, record } of records) {
    if (topic.name !== webhooksDeliveries.name) continue
    const delivery = await deliveryIn(context, record)
    if (delivery) add(delivery)
  }
  if (found.size === 0) return []
  const targets = new Set([...found.values()].map(({ target }) => target))
  await visitAttempts(context, targets, (attempt) => {
    if (attempt.kind === 'state' || attempt.sequence === null) return
    const attempts = found.get(nameOf({ target: attempt.target, sequence: attempt.sequence }))?.attempts
    attempts?.push(attempt)
    if (attempts && attempts.length > attemptsShownMax) attempts.shift()
  })
  return [...found.values()]
}

function nameOf({ target, sequence }: DeliveryName): string {
  return `${target}/${sequence}`
}

async function deliveryIn({ platform }: OperationContext, record: StoredRecord) {
  const value = await decodedValue(platform, webhooksDeliveries, record)
  return value && { target: value.target, sequence: value.sequence ?? record.offset, event: value.event }
}
