/** Runs the reader group that fills one generation of an index, and writes its progress and failure rows. */

import type { Logger } from 'pino'
import { Counter, type Registry } from 'prom-client'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { BatchOutcome } from '#lib/outcome.ts'
import type { Closeable } from '#lib/resource.ts'
import { type CallContext, type RunningConsumer, startBatchConsumer } from '#runtime/consume/consumer.ts'
import { sharedMetric } from '#runtime/observe/metrics.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parsePointKey, vectorsCommands } from '#topics/catalog.ts'
import { createEngineCalls, type EngineCalls } from './engine-calls.ts'
import { operationHeader } from './handler.ts'
import type { GenerationEngine, Index } from './indexes.ts'
import { createProgress, type ProgressTail, publishProgress } from './progress.ts'
import { groupOfGeneration } from './rebuild.ts'
import { openStuckRecords, type StuckRecords } from './stuck.ts'

export type WriterContext = ServiceContext<'eventLog' | 'relational', unknown>

/** What the writer of one index contributes; the rest is common to all indexes. */
export interface IndexWriter {
  index: Index
  engine: GenerationEngine & { ping(): Promise<void> }
  batchRecordsMax: number
  batchBytesMax: number
  callTimeoutMs: number
  openGeneration(parts: GenerationParts): GenerationHandler
}

/** What the handler of one generation works with. */
interface GenerationParts {
  generation: number
  /** Epoch of vectors.commands. */
  epoch: number
  calls: EngineCalls
  stuck: StuckRecords
}

export interface GenerationHandler {
  handle(messages: Message<VectorUpsert>[], context: CallContext): Promise<BatchOutcome[]>
  /**
   * Positions of gained partitions that the index keeps with its points: they are used instead of what the group
   * committed. Partitions that are missing here begin at the committed position.
   */
  positions?(partitions: number[]): Promise<Map<number, number>>
  /** Called when a record of this partition was parked, after its dead letter and failure row were written. */
  parked?(partition: number): void
  /** Called when everything through this offset is done, before progress is published: the index may keep it. */
  settled?(partition: number, throughOffset: number): Promise<void>
  /** Called every ten seconds and at the end: settled positions that were not stored may be stored now. */
  keep?(): Promise<void>
}

const progressRepeatMs = 10_000

export async function startGenerationWriter(
  context: WriterContext,
  writer: IndexWriter,
  { generation, shownAs }: { generation: number; shownAs?: () => string },
  progressTail: ProgressTail,
): Promise<RunningConsumer> {
  const { engines, publisher, log } = context
  const { index, batchRecordsMax, batchBytesMax, callTimeoutMs } = writer
  const topic = vectorsCommands
  const { epoch } = publisher.locationOf(topic)
  const group = groupOfGeneration(index, generation)
  const progress = openProgress(context, index, { generation, epoch }, progressTail)
  const stuck = openStuckRecords({
    ...context,
    relational: engines.relational,
    group,
    epoch,
    shownAs: shownAs ?? (() => group),
  })
  const calls = countingCalls(
    createEngineCalls({ recordsMax: batchRecordsMax, budgetMs: callTimeoutMs / 3, stuck }),
    writtenCounter(context.metrics).labels({ index: index.name }),
  )
  const handler = writer.openGeneration({ generation, epoch, calls, stuck })
  const consumer = await startBatchConsumer(
    { ...context, eventLog: engines.eventLog },
    {
      group,
      ...(shownAs ? { shownAs } : {}),
      topic,
      batchRecordsMax,
      batchBytesMax,
      callTimeoutMs,
      // The gateway has checked every point: what takes long is the engine's fault, not a record's.
      engine: index.name,
      retriesMax: 5,
      backoff: { baseMs: 200, maxMs: 10_000 },
      handle: handler.handle,
      probe: () => writer.engine.ping(),
      async onParked(parked) {
        await writeFailures(engines.relational, index, parked)
        for (const { position } of parked.toSorted((a, b) => a.position.offset - b.position.offset)) {
          progress.failed(position.partition, position.offset)
          handler.parked?.(position.partition)
        }
      },
      async beforeCommit(partition, throughOffset) {
        await handler.settled?.(partition, throughOffset)
        await progress.applied(partition, throughOffset)
        stuck.settled(partition, throughOffset)
      },
      async onAssigned(gained) {
        const kept = await handler.positions?.(gained.map((one) => one.partition))
        const reported = await progress.assigned(
          gained.map((one) => ({ ...one, committed: kept?.get(one.partition) ?? one.committed })),
        )
        // Reported records are not applied again, even without their commit: no read goes back behind them.
        // A partition without a position is left out: the runtime stops it with an alarm.
        const committed = gained.filter((one) => one.committed !== null)
        const starts = kept ?? new Map(committed.map((one) => [one.partition, reported.get(one.partition)!]))
        for (const [partition, start] of starts) stuck.settled(partition, start - 1)
        return starts
      },
    },
  ).catch(async (error: unknown) => {
    await stuck.close()
    throw error
  })
  const keep = async () => await handler.keep?.()
  const repeat = () => progress.repeat(consumer.state().partitions)
  return withRepeats(consumer, { keep, repeat, stuck, log })
}

/** The calls, and a count of what they wrote. */
function countingCalls(calls: EngineCalls, points: { inc(by: number): void }): EngineCalls {
  return {
    async write(pending, call, write) {
      const result = await calls.write(pending, call, write)
      points.inc(result.written)
      return result
    },
  }
}

function writtenCounter(registry: Registry): Counter<'index'> {
  const help = 'Points that were written into an index, or deleted from it'
  return sharedMetric(
    registry,
    'flotilla_written_points_total',
    (common) => new Counter({ ...common, help, labelNames: ['index'] }),
  )
}

function openProgress(
  { publisher }: WriterContext,
  index: Index,
  { generation, epoch }: { generation: number; epoch: number },
  progressTail: ProgressTail,
) {
  return createProgress({
    index,
    generation,
    epoch,
    catchUp: () => progressTail.catchUp(),
    latest: (partition) => progressTail.latest({ generation, epoch, partition }),
    publish: (records) =>
      publishProgress(
        publisher,
        { index, generation },
        records.map((value) => ({ key: value, value })),
      ),
  })
}

/** Repeats the progress until it is closed, so that a reader that joined late or missed a record learns it within ten seconds. */
function withRepeats(
  consumer: RunningConsumer,
  parts: { keep: () => Promise<void>; repeat: () => Promise<void>; stuck: Closeable; log: Logger },
): RunningConsumer {
  const { keep, repeat, stuck, log } = parts
  const tried = (work: () => Promise<void>) =>
    work().catch((error: unknown) => {
      const reason = error instanceof AppError ? error.code : String(error)
      log.warn({ reason }, 'index.progress-not-repeated')
    })
  const timer = setInterval(() => void tried(keep).then(() => tried(repeat)), progressRepeatMs)
  timer.unref()
  return {
    pause: () => consumer.pause(),
    resume: () => consumer.resume(),
    state: () => consumer.state(),
    async close() {
      clearInterval(timer)
      await consumer.close()
      await Promise.all([tried(keep), stuck.close()])
    },
  }
}

interface ParkedRecord {
  message: { key: string } | null
  position: { partition: number; offset: number }
  headers: Record<string, string>
  reason: string
}

const errorCharactersMax = 300

/** Writes a row for each record that belongs to an operation. Writing the same records again changes nothing. */
async function writeFailures(relational: Relational, index: Index, parked: ParkedRecord[]): Promise<void> {
  const rows = parked.filter((record) => record.headers[operationHeader] !== undefined)
  if (rows.length === 0) return
  await relational.query(
    `insert into platform.operation_failures (operation, partition, "offset", point_id, error, index_name)
     select *, $6 from unnest($1::text[], $2::int[], $3::bigint[], $4::text[], $5::text[])
     on conflict do nothing`,
    [
      rows.map((row) => row.headers[operationHeader] as string),
      rows.map((row) => row.position.partition),
      rows.map((row) => row.position.offset),
      rows.map((row) => pointIdOf(row)),
      rows.map((row) => row.reason.slice(0, errorCharactersMax)),
      index.name,
    ],
  )
}

export async function pruneFailures(relational: Relational): Promise<void> {
  await relational.query(
    `delete from platform.operation_failures where created_at < now() - interval '7 days'`,
  )
}

/** Postgres text holds no NUL; an id never does (the gateway refuses it), a damaged key may. */
function pointIdOf(record: ParkedRecord): string | null {
  const id = record.message ? (parsePointKey(record.message.key)?.id ?? null) : null
  return id?.replaceAll('\0', '\ufffd') ?? null
}
