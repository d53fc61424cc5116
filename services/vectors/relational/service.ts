/**
 * The service that mirrors points into the tables that search-pg reads, and publishes how far it is. It makes the tables
 * and the rows about their generations agree before anything is written.
 */

import type { Logger } from 'pino'
import { Gauge, type Registry } from 'prom-client'
import type { Static } from 'typebox'
import type { Mirror } from '#engines/relational/mirror/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { sharedMetric } from '#runtime/observe/metrics.ts'
import { createArrivals, createPace, type Pace } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { auditEvents, vectorsCommands } from '#topics/catalog.ts'
import { openCollections } from '../collections/registry.ts'
import type { IndexWriter } from '../write/generation-writer.ts'
import {
  embedderOf,
  groupOfGeneration,
  listGenerations,
  prepareGroup,
  type RebuildParts,
  relationalIndex,
} from '../write/rebuild.ts'
import { startIndexWriter } from '../write/worker.ts'
import { createGeneration } from './generation.ts'
import { keptAwakeMs, mirrorSettings, type SleepLimits, sleepLimits } from './settings.ts'
import { startSleep } from './sleep.ts'

/** One transaction takes the batches of all partitions together; small ones let others go first sooner. */
const batchRecordsMax = 100
const batchBytesMax = 4 * 1024 * 1024
/** Much shorter than what a reader of its own writes waits for. */
const gatherMs = 500
/** Rows a second that are mirrored while requests or writes keep coming to the machine that also searches. */
const busyRowsPerSecond = 250
const busyFromRecordsPerSecond = 40
const arrivalSampleMs = 500

type Context = ServiceContext<
  'eventLog' | 'relational' | 'mirror' | 'embedder',
  Static<typeof mirrorSettings>
>

export const relationalWriter = defineRelationalWriter()

export function defineRelationalWriter(limits = sleepLimits) {
  return defineWorker({
    name: 'relational-writer',
    purpose: 'mirrors points into the tables that search-pg reads, and reports how far it is',
    needs: ['eventLog', 'relational', 'mirror', 'embedder'],
    config: mirrorSettings,
    async start(context) {
      const off = context.config.MIRROR === 'off'
      exposeOff(context.metrics, off)
      if (!off) return startRelationalWriter(context, limits)
      // The process runs on: only the setting changes when it is switched on again.
      context.log.info({ advice: 'MIRROR=on mirrors points again, from where it was.' }, 'mirror.off')
      return { async close() {} }
    },
  })
}

function exposeOff(metrics: Registry, off: boolean): void {
  const help = '1 when the engine is switched off by a setting'
  sharedMetric(
    metrics,
    'flotilla_switched_off_engine',
    (common) => new Gauge({ ...common, help, labelNames: ['engine'] }),
  ).set({ engine: 'relational_mirror' }, off ? 1 : 0)
}

async function startRelationalWriter(context: Context, limits: SleepLimits): Promise<Closeable> {
  const { eventLog, mirror, relational } = context.engines
  const collections = await openCollections({
    ...context.engines,
    publisher: context.publisher,
    log: context.log,
  })
  const stopping = new AbortController()
  const pace = mirror.driver === 'embedded' ? paceOf(context, stopping.signal) : undefined
  const awakeMs = keptAwakeMs(context.config.MIRROR_SLEEP_AFTER_MIN, limits)
  const sleep = startSleep({ relational, log: context.log, awakeMs, limits })
  const { physicalName } = context.publisher.locationOf(vectorsCommands)
  const writer: IndexWriter = {
    index: relationalIndex,
    engine: mirror,
    batchRecordsMax,
    batchBytesMax,
    gatherMs,
    callTimeoutMs: deadlines.handler.relationalWriterMs,
    sleep,
    openGeneration: ({ generation, epoch, calls, stuck }) =>
      createGeneration({
        mirror,
        target: { generation, epoch },
        calls,
        stuck,
        collections,
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
      await sleep.close()
      await worker.close()
      await collections.close()
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

/**
 * False while an embedded mirror may remain closed: nothing has used it, its tables are there if they ever were, no
 * rebuild is under way, and its group has read all of the log.
 */
export async function isNeeded(mirror: Mirror, parts: RebuildParts): Promise<boolean> {
  const state = mirror.state()
  if (state === 'open') return true
  const { relational, index, eventLog, physicalName } = parts
  const generations = await listGenerations(relational, index)
  if (state === 'absent' && generations.length > 0) return true
  if (generations.some(({ state }) => state === 'building' || state === 'switching')) return true
  const live = generations.find(({ state }) => state === 'live')?.generation ?? 1
  const { committed } = await eventLog.groupState(groupOfGeneration(index, live), physicalName)
  const read = new Map(committed.map((one) => [one.partition, one.offset]))
  const ranges = await eventLog.offsets(physicalName)
  return ranges.some(({ partition, start, end }) => end > Math.max(start, read.get(partition) ?? 0))
}

/**
 * Fresh tables (at the first start, or after a mirror was lost) get a generation number that was never used, so that no
 * progress of an earlier generation counts for them; their group reads the log from the beginning. Any number of
 * instances may do so at once: all of them get the same number.
 */
async function takeIntoUse(mirror: Mirror, parts: RebuildParts, log: Logger): Promise<void> {
  const { relational, index } = parts
  const known = await listGenerations(relational, index)
  const next = Math.max(0, ...known.map((one) => one.generation)) + 1
  const live = await mirror.adoptGeneration(next)
  const inUse = known.some(
    (one) => one.generation === live && (one.state === 'live' || one.state === 'switching'),
  )
  if (inUse) return
  if (live > 1) await prepareGroup(parts, live)
  await relational.transaction(async (tx) => {
    await tx.query(
      `update platform.index_generations set state = 'retired', updated_at = clock_timestamp()
       where index_name = $1 and generation <> $2 and state <> 'retired'`,
      [index.name, live],
    )
    await tx.query(
      `insert into platform.index_generations (index_name, generation, state, embedder) values ($1, $2, 'live', $3)
       on conflict (index_name, generation) do update set state = 'live', updated_at = clock_timestamp()`,
      [index.name, live, embedderOf(known)],
    )
  })
  for (const { generation } of known) {
    if (generation !== live) await parts.eventLog.deleteGroup(groupOfGeneration(index, generation))
  }
  if (known.length > 0) log.warn({ generation: live }, 'mirror.started-empty')
}
