/** vectors.commands in; points in the vector engine, vectors.progress and failure rows out. Also flips a rebuilt index. */

import { Type } from 'typebox'
import type { Closeable } from '#lib/resource.ts'
import type { RunningConsumer } from '#runtime/consumer.ts'
import { withLease } from '#runtime/leases.ts'
import { ensureLiveGeneration, generationsToWrite, listGenerations, stepRebuild } from '#runtime/rebuild.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import { defineWorker } from '#runtime/service.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import { pruneFailures } from './failures.ts'
import { startGenerationWriter, type WriterContext } from './generation-writer.ts'
import { openProgressTail, type ProgressTail } from './progress-tail.ts'

const lookMs = 500
/** What was looked up longer ago than this may be out of date: nothing is started by it. */
const lookValidMs = 500
const pruneMs = 3_600_000
const switchLeaseMs = 15_000

export const vectorWriter = defineWorker({
  name: 'vector-writer',
  purpose: 'applies vectors.commands to the vector engine, batch by batch, and tells how far it is',
  needs: ['eventLog', 'vectors', 'relational'],
  config: Type.Object({}),
  start: startVectorWriter,
})

async function startVectorWriter(context: WriterContext): Promise<Closeable> {
  const stopping = new AbortController()
  const progressTail = await openProgressTail({ ...context, eventLog: context.engines.eventLog })
  const writers = new Map<number, RunningConsumer>()
  const loop = (what: string, everyMs: number, work: () => Promise<unknown>) =>
    repeatUntil({ what, everyMs, signal: stopping.signal, log: context.log }, work)
  const loops = [
    loop('generations', lookMs, () => followGenerations(context, writers, progressTail)),
    loop('rebuild', lookMs, () => switchWhenRipe(context, progressTail)),
    loop('failure rows', pruneMs, () => pruneFailures(context.engines.relational)),
  ]
  return {
    async close() {
      stopping.abort()
      await Promise.all(loops)
      await Promise.all([...writers.values()].map((writer) => writer.close()))
      await progressTail.close()
    },
  }
}

/** Runs the group of each generation that the rows ask for, and no other. */
async function followGenerations(
  context: WriterContext,
  writers: Map<number, RunningConsumer>,
  progressTail: ProgressTail,
): Promise<void> {
  const { relational, vectors } = context.engines
  if (writers.size === 0) await ensureLiveGeneration({ relational, vectors })
  const lookedAt = Date.now()
  const wanted = generationsToWrite(await listGenerations(relational))
  for (const [generation, writer] of writers) {
    if (wanted.includes(generation)) continue
    await writer.close()
    writers.delete(generation)
    context.log.info({ generation }, 'vectors.generation-left')
  }
  for (const generation of wanted) {
    if (writers.has(generation) || Date.now() - lookedAt > lookValidMs) continue
    writers.set(generation, await startGenerationWriter(context, generation, progressTail))
    context.log.info({ generation }, 'vectors.generation-joined')
  }
}

/** Takes the next step of a rebuild; one instance at a time, because a generation is promoted once. */
async function switchWhenRipe(context: WriterContext, progressTail: ProgressTail): Promise<void> {
  const { relational } = context.engines
  const generations = await listGenerations(relational)
  if (!generations.some((one) => one.state === 'building' || one.state === 'switching')) return
  const place = context.publisher.placeOf(vectorsCommands as unknown as Topic<never>)
  const lease = { name: 'switch-vectors', holder: context.instanceId, ttlMs: switchLeaseMs }
  await withLease(relational, lease, async () => {
    await progressTail.catchUp()
    const step = await stepRebuild({
      ...context.engines,
      physicalName: place.physicalName,
      appliedThrough: (generation) => progressTail.appliedThrough(generation, place.epoch),
    })
    if (step !== 'nothing') context.log.info({ step }, 'vectors.rebuild')
  })
}
