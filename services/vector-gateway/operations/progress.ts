/** Records of `vectors.progress` in, "applied through which offset" out: for status, waiting and back-pressure. */

import type { EventLog } from '#engines/event-log/port.ts'
import type { VectorStore } from '#engines/vectors/port.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Codec, Position, Publisher, StoredRecord } from '#runtime/messages.ts'
import type { VectorsProgress } from '#schemas/types.ts'
import { vectorsCommands, vectorsProgress } from '#topics/catalog.ts'
import { createApplied } from './applied.ts'

const indexName = 'vectors'
/** How often the live generation is asked for while somebody waits, and at least between two questions. */
const liveEveryMs = 2_000
const livePauseMs = 200

export interface Progress extends Closeable {
  /** The last applied offset of a partition in the generation that reads see, -1 before the first. */
  appliedThrough(partition: number): number
  /** Records of a partition that failed so far in that generation. */
  failures(partition: number): number
  /** True once all positions are applied, false when `timeoutMs` pass first. */
  reached(positions: readonly Position[], timeoutMs: number): Promise<boolean>
  /** Ends all waiting with false, now and from now on: the gateway stops. */
  stopWaiting(): void
  /** Called whenever a partition moved on. */
  onApplied(listener: (partition: number, through: number) => void): void
}

export interface ProgressParts {
  eventLog: EventLog
  codec: Codec
  publisher: Pick<Publisher, 'placeOf'>
  vectors: Pick<VectorStore, 'liveGeneration'>
  onFault(what: string): void
}

/**
 * Tails the topic from its beginning and takes the greatest of each (generation, partition). A generation goes live only
 * after it has passed the old one in every partition, so asking late for the live one may delay, never deceive.
 */
export async function openProgress(parts: ProgressParts): Promise<Progress> {
  const applied = createApplied()
  const live = createLiveGeneration(parts.vectors, (generation) => applied.goLive(generation))
  const epoch = parts.publisher.placeOf(vectorsCommands).epoch

  function take(value: VectorsProgress): void {
    if (value.index !== indexName || value.epoch !== epoch) return
    applied.take(value)
    if (value.generation !== applied.live()) live.ask()
  }
  function takeRecord(record: StoredRecord): void {
    try {
      const message = parts.codec.decode(vectorsProgress, record)
      if (message instanceof Promise) {
        message.then((late) => late.value && take(late.value), fault)
      } else if (message.value) take(message.value)
    } catch (error) {
      fault(error)
    }
  }
  function fault(error: unknown): void {
    parts.onFault(`a progress record cannot be read: ${describeError(error)}`)
  }

  await live.ask()
  const tail = await parts.eventLog.tail({
    topic: parts.publisher.placeOf(vectorsProgress).physicalName,
    from: 'beginning',
    records: (_partition, records) => records.forEach(takeRecord),
  })
  const timer = setInterval(() => {
    if (applied.waiting() > 0 || applied.live() === undefined) void live.ask()
  }, liveEveryMs)
  timer.unref()

  return {
    appliedThrough: applied.through,
    failures: applied.failures,
    reached: applied.reached,
    onApplied: applied.onApplied,
    stopWaiting: applied.stopWaiting,
    async close() {
      clearInterval(timer)
      applied.stopWaiting()
      await tail.close()
    },
  }
}

/** Asks the vector engine which generation reads see; one question at a time, and not more often than need be. */
function createLiveGeneration(vectors: ProgressParts['vectors'], heard: (generation: number) => void) {
  let asking: Promise<void> | undefined
  async function question(): Promise<void> {
    try {
      heard(await vectors.liveGeneration())
    } catch {
      // The engine is away: nobody reads anything meanwhile, and the timer asks again.
    }
    setTimeout(() => {
      asking = undefined
    }, livePauseMs).unref()
  }
  return {
    ask(): Promise<void> {
      asking ??= question()
      return asking
    },
  }
}
