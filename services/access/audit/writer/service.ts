/** The audit-writer: makes a searchable note in fleet_notes of every audit event, and deletes old notes again. */

import { Type } from 'typebox'
import type { VectorStore } from '#engines/vectors/port.ts'
import { sleep } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { startBatchConsumer } from '#runtime/consume/consumer.ts'
import { withLease } from '#runtime/leases.ts'
import type { Publisher } from '#runtime/publish/messages.ts'
import { createPartitionWriters } from '#runtime/publish/publisher.ts'
import { createArrivals, createPace, repeatUntil } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { auditEvents, vectorsCommands } from '#topics/catalog.ts'
import { auditNoteTime, createHandler } from '../notes.ts'

const config = Type.Object({
  AUDIT_RETENTION_DAYS: Type.Integer({
    minimum: 0,
    maximum: 36_500,
    default: 30,
    description: 'days after which audit notes are deleted; 0 keeps all',
  }),
})

/** While requests keep coming, all partitions together write this many notes a second. */
const busyNotesPerSecond = 25
const busyFromRecordsPerSecond = 40
const arrivalSampleMs = 2_000
/** The notes of the first seconds after a rest wait, too, when many requests come at once. */
const freshArrivalSampleMs = 250
const togetherEveryMs = 4_000
/** Beginning and end of as many notes as go together. */
const batchRecordsMax = (2 * busyNotesPerSecond * togetherEveryMs) / 1_000
const batchBytesMax = 1024 * 1024
/** Nobody waits for notes: those of many searches become one publish, with all that it sets off. */
const gatherMs = 500
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
  const busy = createArrivals({
    total: () => recordsEver(context),
    busyFromPerSecond: busyFromRecordsPerSecond,
    sampleMs: arrivalSampleMs,
    freshSampleMs: freshArrivalSampleMs,
  })
  const pace = createPace({
    busyPerSecond: busyNotesPerSecond,
    togetherEveryMs,
    busy,
    released: stopping.signal,
  })
  const writers = createPartitionWriters(publisher, 'audit-writer')
  const consumer = await startBatchConsumer(
    { eventLog: engines.eventLog, codec, publisher, log, metrics, tracing: context.tracing },
    {
      group: 'audit-writer',
      topic: auditEvents,
      batchRecordsMax,
      batchBytesMax,
      gatherMs,
      aheadRecordsMax: 2 * batchRecordsMax,
      callTimeoutMs,
      retriesMax: 5,
      backoff: { baseMs: 200, maxMs: 10_000 },
      onAssigned: async (gained) => {
        await writers.takeOver(gained)
        return undefined
      },
      handle: createHandler({ embedder: engines.localEmbedder, writers, pace }),
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
      const deleted = await pruneAuditNotes({
        vectors: engines.vectors,
        publisher,
        retentionDays,
        signal: ended,
      })
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
