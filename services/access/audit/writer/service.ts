/** The audit-writer: makes a searchable note in fleet_notes of every audit event, and deletes old notes again. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { Type } from 'typebox'
import type { Embedder } from '#engines/embedder/port.ts'
import { auditNoteId, auditNoteTime } from '#engines/vectors/collections.ts'
import type { Payload, VectorStore } from '#engines/vectors/port.ts'
import { sleep } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { isFenced, isUnavailable } from '#lib/errors.ts'
import { done, type Outcome, unavailable } from '#lib/outcome.ts'
import type { Closeable } from '#lib/resource.ts'
import { type CallContext, startBatchConsumer } from '#runtime/consume/consumer.ts'
import { withLease } from '#runtime/leases.ts'
import { headerNames, type Message, type OutgoingMessage, type Publisher } from '#runtime/publish/messages.ts'
import { createPartitionWriters, type PartitionWriters } from '#runtime/publish/publisher.ts'
import type { Pace } from '#runtime/repeat.ts'
import { createArrivals, createPace, repeatUntil } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import type { AuditEvent, VectorUpsert } from '#schemas/types.ts'
import { auditEvents, vectorsCommands } from '#topics/catalog.ts'

const config = Type.Object({
  AUDIT_RETENTION_DAYS: Type.Integer({
    minimum: 0,
    maximum: 36_500,
    default: 30,
    description: 'days after which audit notes are deleted; 0 keeps all',
  }),
})

/**
 * While requests keep coming, all partitions together write this many notes a second at most: more than the requests that one
 * process serves, so the bound holds only while a backlog is worked off.
 */
const busyNotesPerSecond = 1_000
const busyFromRecordsPerSecond = 40
const arrivalSampleMs = 2_000
/** The notes of the first seconds after a rest wait, too, when many requests come at once. */
const freshArrivalSampleMs = 250
/**
 * Nobody waits for notes: those of many searches become one publish, with all that it sets off. Far longer than an end follows
 * its beginning: few notes are written twice because the two are in different batches.
 */
const gatherMs = { embedded: 1_000, distributed: 5_000 }
const batchRecordsMax = 2_000
const batchBytesMax = 1024 * 1024
/** Covers a batch of every partition at the slow pace. */
const callTimeoutMs = deadlines.handler.auditWriterMs
const pruneEveryMs = 6 * 3_600_000
const pruneFirstAfterMs = 60_000
const pruneLeaseMs = deadlines.lease.pruneMs

type Context = ServiceContext<
  'eventLog' | 'vectors' | 'relational' | 'localEmbedder',
  { AUDIT_RETENTION_DAYS: number }
>

export const auditWriter = defineWorker({
  name: 'audit-writer',
  purpose: 'writes a searchable note for every handshake and vector operation, and prunes old ones',
  needs: ['eventLog', 'vectors', 'relational', 'localEmbedder'],
  config,
  start: startAuditWriter,
})

async function startAuditWriter(context: Context): Promise<Closeable> {
  const { engines, codec, publisher, log, metrics } = context
  const stopping = new AbortController()
  const isEmbedded = engines.eventLog.driver === 'embedded'
  const pace = isEmbedded ? paceOf(context, stopping.signal) : undefined
  const writers = createPartitionWriters(publisher, 'audit-writer')
  const consumer = await startBatchConsumer(
    { eventLog: engines.eventLog, codec, publisher, log, metrics, tracing: context.tracing },
    {
      group: 'audit-writer',
      topic: auditEvents,
      batchRecordsMax,
      batchBytesMax,
      gatherMs: isEmbedded ? gatherMs.embedded : gatherMs.distributed,
      aheadRecordsMax: batchRecordsMax,
      callTimeoutMs,
      retriesMax: 5,
      backoff: { baseMs: 200, maxMs: 10_000 },
      onAssigned: async (gained) => {
        await writers.takeOver(gained)
        return undefined
      },
      handle: createHandler({ embedder: engines.localEmbedder, writers, ...(pace ? { pace } : {}) }),
      probe: () => engines.eventLog.ping(),
    },
  )
  const pruning = startPruning(context, stopping.signal)
  return {
    async close() {
      stopping.abort()
      await Promise.all([consumer.close(), pruning])
      await writers.close()
    },
  }
}

/** For one machine that runs everything: requests come first. */
function paceOf(context: Context, released: AbortSignal): Pace {
  const busy = createArrivals({
    total: () => recordsEver(context),
    busyFromPerSecond: busyFromRecordsPerSecond,
    sampleMs: arrivalSampleMs,
    freshSampleMs: freshArrivalSampleMs,
  })
  return createPace({ busyPerSecond: busyNotesPerSecond, busy, released })
}

/** Handshakes and operations of every gateway since the topic was made. */
async function recordsEver({ engines, publisher }: Context): Promise<number> {
  const { physicalName } = publisher.locationOf(auditEvents)
  const ranges = await engines.eventLog.offsets(physicalName)
  return ranges.reduce((sum, range) => sum + range.end, 0)
}

function startPruning(context: Context, signal: AbortSignal): Promise<void> {
  const retentionDays = context.config.AUDIT_RETENTION_DAYS
  if (retentionDays === 0) return Promise.resolve()
  const { engines, publisher, log } = context
  const lease = { name: 'audit-retention', holder: context.instanceId, ttlMs: pruneLeaseMs }
  const options = {
    what: 'audit retention',
    everyMs: pruneEveryMs,
    firstAfterMs: pruneFirstAfterMs,
    signal,
    log,
  }
  return repeatUntil(options, () =>
    withLease(engines.relational, lease, async (held) => {
      const ended = AbortSignal.any([signal, held.signal])
      const { vectors } = engines
      const deleted = await pruneAuditNotes({ vectors, publisher, retentionDays, signal: ended })
      log.info({ deleted }, 'audit.pruned')
    }),
  )
}

const pageSize = 200
/** Between two pages, so that searches and writes come first. */
const pagePauseMs = 200

interface RetentionParts {
  vectors: Pick<VectorStore, 'scroll'>
  publisher: Pick<Publisher, 'publish'>
  retentionDays: number
  now?(): number
  signal: AbortSignal
}

/** Goes once through all audit notes, page by page. Resolves with how many were deleted; other notes are never touched. */
export async function pruneAuditNotes(parts: RetentionParts): Promise<number> {
  const before = (parts.now?.() ?? Date.now()) - parts.retentionDays * 86_400_000
  const filter = { must: [{ key: 'tags', match: { value: 'auth' } }] }
  let deleted = 0
  let offset: string | undefined
  while (!parts.signal.aborted) {
    const page = await parts.vectors.scroll('fleet_notes', {
      limit: pageSize,
      filter,
      withPayload: false,
      ...(offset === undefined ? {} : { offset }),
    })
    const old = page.points.filter((point) => (auditNoteTime(point.id) ?? Number.POSITIVE_INFINITY) < before)
    await parts.publisher.publish(
      vectorsCommands,
      old.map((point) => ({ key: { collection: 'fleet_notes', id: point.id }, value: null })),
    )
    deleted += old.length
    if (page.next === null) break
    offset = page.next
    await sleep(pagePauseMs, parts.signal)
  }
  return deleted
}

/** Notes that are later than this are not held back any longer, however busy the platform is. */
const lateMs = 300_000
/** Texts that are embedded, and notes that are published, in one turn of the event loop: a few milliseconds of work. */
const embeddedAtOnce = 25
const publishedAtOnce = 100

/** Makes notes of batches of audit.events, of each event its last state, and publishes them to vectors.commands. */
export function createHandler(parts: {
  embedder: Embedder
  writers: Pick<PartitionWriters, 'of'>
  pace?: Pace
}) {
  return async function writeAuditNotes(
    messages: Message<AuditEvent>[],
    context: Pick<CallContext, 'signal' | 'partition'>,
  ): Promise<Outcome[]> {
    const events = lastStates(messages)
    if (events.length === 0) return messages.map(() => done)
    try {
      if (Date.now() - messages[0]!.timestamp < lateMs) await parts.pace?.take(events.length, context.signal)
      context.signal.throwIfAborted()
      await publishNotes(parts.embedder, parts.writers.of(context.partition), events)
    } catch (error) {
      if (!isUnavailable(error) && !isFenced(error)) throw error
      return messages.map(() => unavailable('event-log', error.message))
    }
    return messages.map(() => done)
  }
}

/** The beginning of an event whose end is in the batch, too, is not written. An end is never replaced by a beginning. */
function lastStates(messages: Message<AuditEvent>[]): AuditEvent[] {
  const events = new Map<string, AuditEvent>()
  for (const { value } of messages) {
    if (!value || (value.phase === 'begun' && events.has(value.event_id))) continue
    events.set(value.event_id, value)
  }
  return [...events.values()]
}

async function publishNotes(
  embedder: Embedder,
  publisher: Pick<Publisher, 'publish'>,
  events: AuditEvent[],
): Promise<void> {
  const notes = events.map(noteOf)
  const vectors = await embedEach(embedder, new Set(notes.map(({ text }) => text)))
  for (let from = 0; from < notes.length; from += publishedAtOnce) {
    if (from > 0) await nextTurn()
    const part = notes.slice(from, from + publishedAtOnce)
    await publisher.publish(
      vectorsCommands,
      part.map((note, i) => messageOf(note, events[from + i]!, vectors.get(note.text)!, embedder.space)),
    )
  }
}

/** Text → its vector: the notes of a batch have few different texts. */
async function embedEach(embedder: Embedder, texts: ReadonlySet<string>): Promise<Map<string, Float32Array>> {
  const all = [...texts]
  const vectors = new Map<string, Float32Array>()
  for (let from = 0; from < all.length; from += embeddedAtOnce) {
    if (from > 0) await nextTurn()
    const part = all.slice(from, from + embeddedAtOnce)
    const made = await embedder.embed(part)
    for (const [i, text] of part.entries()) vectors.set(text, made[i]!)
  }
  return vectors
}

function messageOf(
  note: AuditNote,
  event: AuditEvent,
  vector: Float32Array,
  embedder: string,
): OutgoingMessage<{ collection: string; id: string }, VectorUpsert> {
  return {
    key: { collection: 'fleet_notes', id: note.id },
    value: {
      vector: Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength),
      payload: JSON.stringify(note.payload),
      embedder,
      making: null,
      expires_at: null,
    },
    headers: { [headerNames.agent]: event.agent_id, [headerNames.requestId]: event.request_id },
  }
}

interface AuditNote {
  id: string
  /** The text that is embedded. */
  text: string
  payload: Payload
}

/** The same event always gives the same note, so writing it twice changes nothing. */
export function noteOf(event: AuditEvent): AuditNote {
  const title = titleOf(event)
  const payload: Payload = {
    title,
    ...(event.collection === null ? {} : { collection: event.collection }),
    status: event.phase === 'begun' ? 'active' : 'resolved',
    tags: ['auth', 'vector', event.agent_id],
    updated_at: new Date(event.occurred_at).toISOString(),
    operation: event.operation,
    outcome: event.outcome,
    status_code: event.status_code,
    took_ms: event.took_ms,
    request_id: event.request_id,
  }
  if (event.phase === 'summary') payload.count = event.count
  return { id: auditNoteId(event.event_id), text: title, payload }
}

function titleOf(event: AuditEvent): string {
  const where = event.collection === null ? '' : ` on ${event.collection}`
  const times = event.phase === 'summary' ? `${event.count} times ` : ''
  return `${event.operation}${where} by ${event.agent_id}: ${times}${event.outcome}`
}
