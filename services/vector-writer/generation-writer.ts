/** The reader group of one generation: batches of vectors.commands in, points in that generation, progress and failure rows out. */

import { AppError } from '#lib/errors.ts'
import type { RunningConsumer } from '#runtime/consumer.ts'
import { startConsumer } from '#runtime/consumer.ts'
import { groupOfGeneration } from '#runtime/rebuild.ts'
import type { ServiceContext } from '#runtime/service.ts'
import { vectorsCommands, vectorsProgress } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import { writeFailures } from './failures.ts'
import { createHandler } from './handler.ts'
import { joinApplies } from './joined-apply.ts'
import { createProgress } from './progress.ts'
import type { ProgressTail } from './progress-tail.ts'

export type WriterContext = ServiceContext<'eventLog' | 'vectors' | 'relational', unknown>

const batchRecordsMax = 500
const batchBytesMax = 8 * 1024 * 1024
/** A partition whose owner died waits this long for calls of it that may still run. */
const callTimeoutMs = 30_000
const progressRepeatMs = 10_000

export async function startGenerationWriter(
  context: WriterContext,
  generation: number,
  progressTail: ProgressTail,
): Promise<RunningConsumer> {
  const { engines, publisher, log } = context
  const topic = vectorsCommands as unknown as Topic<never, 'vector-upsert'>
  const { epoch } = publisher.placeOf(topic as unknown as Topic<never>)
  const progress = createProgress({
    generation,
    epoch,
    catchUp: () => progressTail.catchUp(),
    latest: (partition) => progressTail.latest({ generation, epoch, partition }),
    publish: async (records) => {
      await publisher.publish(
        vectorsProgress,
        records.map((value) => ({ key: value, value })),
      )
    },
  })
  const { vectors } = engines
  const handle = createHandler(joinApplies(vectors.apply.bind(vectors), generation))
  const consumer = await startConsumer(
    { eventLog: engines.eventLog, codec: context.codec, publisher, log, metrics: context.metrics },
    {
      mode: 'batch',
      group: groupOfGeneration(generation),
      topic,
      batchRecordsMax,
      batchBytesMax,
      callTimeoutMs,
      retriesMax: 5,
      backoff: { baseMs: 200, maxMs: 10_000 },
      handle,
      probe: () => engines.vectors.ping(),
      async onParked(parked) {
        await writeFailures(engines.relational, parked)
        for (const { position } of parked.toSorted((a, b) => a.position.offset - b.position.offset)) {
          progress.failed(position.partition, position.offset)
        }
      },
      beforeCommit: (partition, throughOffset) => progress.applied(partition, throughOffset),
      async onAssigned(partitions) {
        await progress.assigned(partitions)
        return undefined
      },
    },
  )
  return withRepeats(consumer, () => progress.repeat(consumer.state().partitions), context)
}

/** A reader that joined late, or missed a record, hears where the index is within ten seconds. */
function withRepeats(
  consumer: RunningConsumer,
  repeat: () => Promise<void>,
  { log }: WriterContext,
): RunningConsumer {
  const timer = setInterval(() => {
    repeat().catch((error: unknown) => {
      const reason = error instanceof AppError ? error.code : String(error)
      log.warn({ reason }, 'vectors.progress-not-repeated')
    })
  }, progressRepeatMs)
  timer.unref()
  return {
    pause: () => consumer.pause(),
    resume: () => consumer.resume(),
    state: () => consumer.state(),
    async close() {
      clearInterval(timer)
      await consumer.close()
    },
  }
}
