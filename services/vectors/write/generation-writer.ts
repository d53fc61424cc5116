/** Runs the reader group that fills one generation of an index, cuts its batches into calls, and writes its progress and failure rows. */

import { Counter } from 'prom-client'
import { AppError, describeError, isUnavailable, whyWaiting } from '#lib/errors.ts'
import type { BatchOutcome } from '#lib/outcome.ts'
import type { Closeable } from '#lib/resource.ts'
import { type CallContext, startBatchConsumer } from '#runtime/consume/consumer.ts'
import { sharedMetric } from '#runtime/observe/metrics.ts'
import { headerNames, type Message } from '#runtime/publish/messages.ts'
import { startRepeating } from '#runtime/repeat.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import type { Sleep } from '../relational/sleep.ts'
import { openStuckRecords, type StuckRecords, writeFailures } from './failures.ts'
import { createProgress, type ProgressTail } from './progress.ts'
import { type GenerationEngine, groupOfGeneration, type Index } from './rebuild.ts'
import { remaking } from './remake.ts'

export type WriterContext = ServiceContext<'eventLog' | 'relational' | 'embedder', unknown>

/** What the writer of one index contributes; the rest is common to all indexes. */
export interface IndexWriter {
  index: Index
  engine: GenerationEngine & { ping(): Promise<void> }
  batchRecordsMax: number
  batchBytesMax: number
  callTimeoutMs: number
  /** As of a batch consumer: where nobody waits for its progress at once. */
  gatherMs?: number
  /** With it, groups pause while nobody needs the index. */
  sleep?: Sleep | undefined
  /** `epoch` is that of vectors.commands. */
  openGeneration(parts: {
    generation: number
    epoch: number
    calls: EngineCalls
    stuck: StuckRecords
  }): GenerationHandler
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

const keepMs = 10_000
/** For readers that missed a record. Progress that moves is made known at once, and rest shall cost little. */
const progressRepeatMs = 60_000
const embedderPingMs = 5_000

/**
 * `named.shown` is what people call the group; it may change. `named.embedder` is the space that vectors of texts are made
 * again for, null where they stay as they are.
 */
export async function startGenerationWriter(
  context: WriterContext,
  writer: IndexWriter,
  named: { generation: number; shown: string; embedder: string | null },
  progressTail: ProgressTail,
): Promise<Closeable> {
  const { generation } = named
  const { engines, publisher, log } = context
  const { index, batchRecordsMax, batchBytesMax, callTimeoutMs, gatherMs } = writer
  const topic = vectorsCommands
  const { epoch } = publisher.locationOf(topic)
  const group = groupOfGeneration(index, generation)
  const shownAs = () => named.shown
  const progress = createProgress(publisher, { index, generation, epoch }, progressTail)
  const stuck = openStuckRecords({ ...context, relational: engines.relational, group, epoch, shownAs })
  const help = 'Points that were written into an index, or deleted from it'
  const points = sharedMetric(
    context.metrics,
    'flotilla_written_points_total',
    (common) => new Counter({ ...common, help, labelNames: ['index'] }),
  ).labels({ index: index.name })
  const calls = createEngineCalls({ recordsMax: batchRecordsMax, budgetMs: callTimeoutMs / 3, stuck, points })
  const handler = writer.openGeneration({ generation, epoch, calls, stuck })
  const consumer = await startBatchConsumer(
    { ...context, eventLog: engines.eventLog },
    {
      group,
      shownAs,
      topic,
      batchRecordsMax,
      batchBytesMax,
      callTimeoutMs,
      ...(gatherMs === undefined ? { isAwaited } : { gatherMs }),
      // The gateway has checked every point: what takes long is the engine's fault, not a record's.
      engine: index.name,
      adviceIfStale: `run \`flotilla rebuild ${index.name}\``,
      retriesMax: 5,
      backoff: { baseMs: 200, maxMs: 10_000 },
      handle: remaking(handler.handle, { embedder: engines.embedder, space: named.embedder, log }),
      probe: (engine) =>
        engine === 'embedder' ? engines.embedder.ping(embedderPingMs) : writer.engine.ping(),
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
  const leaveSleep = writer.sleep?.joined(consumer)
  const keep = async () => handler.keep?.()
  const every = (everyMs: number, what: string, work: () => Promise<void>) =>
    startRepeating({ what: `${what} of ${named.shown}`, everyMs, firstAfterMs: everyMs, log }, work)
  const repeating = [
    every(keepMs, 'positions', keep),
    every(progressRepeatMs, 'progress', async () => {
      if (!writer.sleep?.asleep) await progress.repeat(consumer.state().partitions)
    }),
  ]
  return {
    async close() {
      leaveSleep?.()
      const ended = repeating.map((one) => one.close())
      await consumer.close()
      const kept = keep().catch((error: unknown) => log.warn(whyWaiting(error), 'index.positions-not-kept'))
      await Promise.all([...ended, kept, stuck.close()])
    },
  }
}

function isAwaited({ headers }: Message<VectorUpsert>): boolean {
  return headers[headerNames.awaited] !== undefined
}

/** Calls that must have worked before they take twice as many records. */
const workedUntilGrowth = 16

/** A record, and what the engine gets of it. */
export interface Pending<T> {
  /** Its place in the batch. */
  index: number
  offset: number
  key: string
  operation: T
}

export type EngineCalls = ReturnType<typeof createEngineCalls>

/**
 * Cuts batches into calls of the engine: after a call that took too long the partition's calls take half as many records,
 * down to one, and grow again while they work; a record that is alone in its call and still finds no end is reported.
 */
export function createEngineCalls(parts: {
  recordsMax: number
  /** No further call begins after this time. */
  budgetMs: number
  stuck: Pick<StuckRecords, 'failedAlone'>
  /** Counts the points that were written. */
  points?: { inc(by: number): void }
}) {
  /** Partitions whose calls are smaller than usual. */
  const smaller = new Map<number, { size: number; worked: number }>()

  function worked(partition: number): void {
    const state = smaller.get(partition)
    if (!state || ++state.worked < workedUntilGrowth) return
    state.worked = 0
    state.size *= 2
    if (state.size >= parts.recordsMax) smaller.delete(partition)
  }

  return {
    /**
     * Writes what it can within the time of one handler call, in order. `alone`: the call must not be joined with those of
     * other partitions, because it may be the one that takes too long. Resolves with the number of written records and
     * the fault of the call that ended the writing early; never rejects.
     */
    async write<T>(
      pending: Pending<T>[],
      { partition, signal }: Pick<CallContext, 'partition' | 'signal'>,
      write: (some: Pending<T>[], alone: boolean) => Promise<void>,
    ): Promise<{ written: number; fault: unknown }> {
      const begunAt = performance.now()
      let written = 0
      while (written < pending.length) {
        if (written > 0 && performance.now() - begunAt > parts.budgetMs) {
          return {
            written,
            fault: new AppError('overloaded', 'The engine is slow: the rest of the batch follows.'),
          }
        }
        const size = smaller.get(partition)?.size ?? parts.recordsMax
        const some = pending.slice(written, written + size)
        try {
          signal.throwIfAborted()
          await write(some, smaller.has(partition))
        } catch (fault) {
          if (isUnavailable(fault) || signal.aborted) {
            smaller.set(partition, { size: Math.max(1, some.length >> 1), worked: 0 })
            const { offset, key } = some[0]!
            if (some.length === 1) {
              parts.stuck.failedAlone({ partition, offset, key }, describeError(fault))
            }
          }
          return { written, fault }
        }
        worked(partition)
        written += some.length
        parts.points?.inc(some.length)
      }
      return { written, fault: null }
    },
  }
}
