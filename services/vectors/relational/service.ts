/** The service that mirrors points into the tables that search-pg reads, and publishes how far it is. */

import { Type } from 'typebox'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { createArrivals, createPace, type Pace } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { auditEvents, vectorsCommands } from '#topics/catalog.ts'
import type { IndexWriter } from '../write/generation-writer.ts'
import { relationalIndex } from '../write/rebuild.ts'
import { startIndexWriter } from '../write/worker.ts'
import { createGeneration } from './generation.ts'
import { isNeeded, takeIntoUse } from './take-into-use.ts'

/** One transaction takes the batches of all partitions together; small ones let others go first sooner. */
const batchRecordsMax = 100
const batchBytesMax = 4 * 1024 * 1024
/** Rows a second that are mirrored while requests or writes keep coming to the machine that also searches. */
const busyRowsPerSecond = 250
const busyFromRecordsPerSecond = 40
const arrivalSampleMs = 500

type Context = ServiceContext<'eventLog' | 'relational' | 'mirror', unknown>

export const relationalWriter = defineWorker({
  name: 'relational-writer',
  purpose: 'mirrors points into the tables that search-pg reads, and reports how far it is',
  needs: ['eventLog', 'relational', 'mirror'],
  config: Type.Object({}),
  start: startRelationalWriter,
})

async function startRelationalWriter(context: Context): Promise<Closeable> {
  const { eventLog, mirror } = context.engines
  const stopping = new AbortController()
  const pace = mirror.driver === 'embedded' ? paceOf(context, stopping.signal) : undefined
  const { physicalName } = context.publisher.locationOf(vectorsCommands)
  const writer: IndexWriter = {
    index: relationalIndex,
    engine: mirror,
    batchRecordsMax,
    batchBytesMax,
    callTimeoutMs: deadlines.handler.relationalWriterMs,
    openGeneration: ({ generation, epoch, calls, stuck }) =>
      createGeneration({
        mirror,
        target: { generation, epoch },
        calls,
        stuck,
        tracing: context.tracing,
        logStarts: async () => {
          const ranges = await eventLog.offsets(physicalName)
          return new Map(ranges.map((range) => [range.partition, range.start]))
        },
        ...(pace ? { pace } : {}),
      }),
  }
  const worker = await startIndexWriter(context, writer, async (parts) => {
    if (!(await isNeeded(mirror, parts))) return false
    await takeIntoUse(mirror, parts, context.log)
    return true
  })
  return {
    async close() {
      stopping.abort()
      await worker.close()
    },
  }
}

/** For one machine that runs everything: searches and the vector engine come first, the mirror may lag. */
function paceOf(context: Context, released: AbortSignal): Pace {
  const topics = [auditEvents, vectorsCommands]
  const busy = createArrivals({
    async total() {
      const names = topics.map((topic) => context.publisher.locationOf(topic).physicalName)
      const ranges = await Promise.all(names.map((name) => context.engines.eventLog.offsets(name)))
      return ranges.flat().reduce((sum, range) => sum + range.end, 0)
    },
    busyFromPerSecond: busyFromRecordsPerSecond,
    sampleMs: arrivalSampleMs,
  })
  return createPace({ busyPerSecond: busyRowsPerSecond, busy, released })
}
