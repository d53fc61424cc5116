/** Follows `vectors.progress`: through which offset each index is applied, for status, waiting and back-pressure. */

import type { Mirror } from '#engines/relational/mirror/port.ts'
import type { VectorStore } from '#engines/vectors/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { type FollowParts, followTopic } from '#runtime/follow/follow-topic.ts'
import type { Codec, Message, Position, Publisher } from '#runtime/publish/messages.ts'
import type { VectorsProgress } from '#schemas/types.ts'
import { parseProgressKey, vectorsCommands, vectorsProgress } from '#topics/catalog.ts'
import { createApplied } from './applied.ts'

/** How often the live generation is asked for while a request waits, and the least time between two queries. */
const liveEveryMs = 2_000
const livePauseMs = 200
/** The topic holds one record for each partition and generation. */
const readyMsMax = 30_000

/** How far one index of the points is: the vector engine's or the relational mirror. */
export interface IndexProgress {
  /** The last applied offset of a partition in the generation that reads see, -1 before the first. */
  appliedThrough(partition: number): number
  /** Records of a partition that failed so far in that generation; above 0 also where that is not known. */
  failures(partition: number): number
  /** True once all positions are applied, false when `timeoutMs` pass first. */
  reached(positions: readonly Position[], timeoutMs: number): Promise<boolean>
}

/** Progress of the vector engine, and in `mirrored` that of the relational mirror. */
export interface Progress extends IndexProgress, Closeable {
  mirrored: IndexProgress
  /** Ends all waiting with false, now and later: the gateway stops. */
  stopWaiting(): void
  /** The listener is called whenever more of a partition is applied. */
  onApplied(listener: (partition: number, through: number) => void): void
}

export interface ProgressParts extends FollowParts {
  codec: Codec
  publisher: Pick<Publisher, 'locationOf'>
  vectors: Pick<VectorStore, 'liveGeneration'>
  mirror: Pick<Mirror, 'liveGeneration'>
}

/**
 * Tails the topic from its beginning and keeps the greatest offset of each (generation, partition). A generation goes
 * live only after it has passed the old one in every partition, so an old answer about the live one may delay a
 * request, but never reports something as applied too early. Resolves once all that was reported before is known;
 * throws AppError `log_unavailable`.
 */
export async function openProgress(parts: ProgressParts): Promise<Progress> {
  const vectors = createIndex(parts.vectors, { askFirst: true })
  const mirrored = createIndex(parts.mirror, { askFirst: false })
  const indexes: Record<string, Index | undefined> = { vectors, relational: mirrored }
  const epoch = parts.publisher.locationOf(vectorsCommands).epoch

  function takeMessage({ key, value }: Message<VectorsProgress>): void {
    const of = value ?? parseProgressKey(key)
    if (of === null || !Object.hasOwn(indexes, of.index)) return
    if (value === null) indexes[of.index]?.applied.forget(of.generation, of.partition)
    else if (value.epoch === epoch) indexes[of.index]?.take(value)
  }
  function stopWaiting(): void {
    vectors.applied.stopWaiting()
    mirrored.applied.stopWaiting()
  }

  await vectors.live.ask()
  const tail = await followTopic(parts, vectorsProgress, {
    from: 'beginning',
    onMessage: takeMessage,
    // It may have counted failures: from now on the rows are asked.
    onFault() {
      vectors.applied.missed()
      mirrored.applied.missed()
    },
  })
  try {
    const slow = () =>
      new AppError('log_unavailable', 'The progress of the indexes could not be read in time.')
    await withTimeout(tail.ready, readyMsMax, slow)
  } catch (error) {
    await tail.close()
    throw error
  }
  const timer = setInterval(() => {
    if (vectors.applied.live() === undefined) void vectors.live.ask()
    for (const { applied, live } of [vectors, mirrored]) if (applied.waiting() > 0) void live.ask()
  }, liveEveryMs)
  timer.unref()

  return {
    appliedThrough: vectors.applied.through,
    failures: vectors.applied.failures,
    reached: vectors.applied.reached,
    onApplied: vectors.applied.onApplied,
    mirrored: {
      appliedThrough: mirrored.applied.through,
      failures: mirrored.applied.failures,
      async reached(positions, timeoutMs) {
        // Asked only when a request waits: an embedded mirror is opened by its first call.
        if (mirrored.applied.live() === undefined) void mirrored.live.ask()
        return mirrored.applied.reached(positions, timeoutMs)
      },
    },
    stopWaiting,
    async close() {
      clearInterval(timer)
      stopWaiting()
      await tail.close()
    },
  }
}

type Engine = { liveGeneration(): Promise<number> }
type Index = ReturnType<typeof createIndex>

/** Without `askFirst` the engine is not asked before a request waits. */
function createIndex(engine: Engine, { askFirst }: { askFirst: boolean }) {
  const applied = createApplied()
  const live = createLiveGeneration(engine, (generation) => applied.goLive(generation))
  return {
    applied,
    live,
    take(value: VectorsProgress): void {
      applied.take(value)
      const known = applied.live()
      if (value.generation !== known && (askFirst || known !== undefined)) void live.ask()
    },
  }
}

/** Asks an engine which generation reads see; one query at a time, with a pause between them. */
function createLiveGeneration(engine: Engine, onAnswer: (generation: number) => void) {
  let asking: Promise<void> | undefined
  async function query(): Promise<void> {
    try {
      onAnswer(await engine.liveGeneration())
    } catch {
      // The engine is away: no read succeeds meanwhile, and the timer asks again.
    }
    setTimeout(() => {
      asking = undefined
    }, livePauseMs).unref()
  }
  return {
    ask(): Promise<void> {
      asking ??= query()
      return asking
    },
  }
}
