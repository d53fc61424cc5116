/** The note-indexer: makes the hub's notes searchable in fleet_notes. */

import { Type } from 'typebox'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { startBatchConsumer } from '#runtime/consume/consumer.ts'
import { createPartitionWriters } from '#runtime/publish/publisher.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { hubRecords } from '#topics/catalog.ts'
import { readVersions } from '../notes/notes.ts'
import { createHandler } from './handler.ts'

const batchRecordsMax = 100
const batchBytesMax = 1024 * 1024
const callTimeoutMs = deadlines.handler.noteIndexerMs
const embedderPingMs = 5_000

export const noteIndexer = defineWorker({
  name: 'note-indexer',
  purpose: 'makes the notes of the hub searchable in fleet_notes',
  needs: ['eventLog', 'relational', 'embedder'],
  config: Type.Object({}),
  start: startNoteIndexer,
})

async function startNoteIndexer(
  context: ServiceContext<'eventLog' | 'relational' | 'embedder', unknown>,
): Promise<Closeable> {
  const { engines, codec, publisher, log, metrics } = context
  const { eventLog, relational, embedder } = engines
  const writers = createPartitionWriters(publisher, 'note-indexer')
  const consumer = await startBatchConsumer(
    { eventLog, codec, publisher, log, metrics, tracing: context.tracing },
    {
      group: 'note-indexer',
      topic: hubRecords,
      batchRecordsMax,
      batchBytesMax,
      callTimeoutMs,
      retriesMax: 5,
      backoff: { baseMs: 200, maxMs: 10_000 },
      onAssigned: async (gained) => {
        await writers.takeOver(gained)
        return undefined
      },
      handle: createHandler({ embedder, writers, versionsOf: (ids) => readVersions(relational, ids) }),
      probe(engine) {
        if (engine === 'embedder') return embedder.ping(embedderPingMs)
        return engine === 'database' ? relational.ping() : eventLog.ping()
      },
    },
  )
  return {
    async close() {
      await consumer.close()
      await writers.close()
    },
  }
}
