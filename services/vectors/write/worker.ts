/**
 * Runs the reader groups of an index, one for each generation that the rows name, and promotes a rebuilt generation.
 */

import { createWakeup } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { followRecords } from '#runtime/follow/follow-topic.ts'
import { withLease } from '#runtime/leases.ts'
import { hearNotices, lookRestMs, lookSeldomMs } from '#runtime/notices.ts'
import { type RepeatOptions, repeatUntil } from '#runtime/repeat.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { pruneFailures, pruneStuck } from './failures.ts'
import { type IndexWriter, startGenerationWriter, type WriterContext } from './generation-writer.ts'
import { openProgressTail } from './progress.ts'
import {
  ensureLiveGeneration,
  generationsToWrite,
  listGenerations,
  type RebuildParts,
  shownGroup,
  stepRebuild,
} from './rebuild.ts'

/** How often the rows are read while a rebuild runs. */
const rebuildLookMs = 500
/** Rows that were read longer ago than this may be out of date: no group is started because of them. */
const rowsValidMs = 500
const pruneMs = 3_600_000
/** A start has other things to do. */
const prune = { firstAfterMs: 60_000 }

/**
 * `before` is called until it resolves with true, before anything is read or written: every few seconds, and when the
 * generations change or records arrive.
 */
export async function startIndexWriter(
  context: WriterContext,
  writer: IndexWriter,
  before: (parts: RebuildParts) => Promise<boolean> = async () => true,
): Promise<Closeable> {
  const { publisher, log } = context
  const { eventLog, relational } = context.engines
  const { index, engine } = writer
  const stopping = new AbortController()
  const progressTail = openProgressTail({ ...context, eventLog, index })
  /** By generation; `shown` is what people call its group, as the rows said last. */
  const groups = new Map<number, { named: { shown: string }; group: Closeable }>()
  const [changedRows, changedRebuild] = [createWakeup(), createWakeup()]
  /** As the rows said last. */
  let rebuilding = false
  /** False after a fault: then they are read again sooner. */
  let followed = false
  let mayWrite = false
  /** Hears of records while `before` says no. */
  let arrivals: Closeable | undefined

  function partsNow(): RebuildParts {
    const { physicalName } = publisher.locationOf(vectorsCommands)
    return { eventLog, relational, index, engine, physicalName }
  }
  async function askBefore(): Promise<void> {
    mayWrite = await before(partsNow())
    if (!mayWrite && !arrivals) {
      arrivals = await followRecords({ eventLog, publisher, log }, vectorsCommands, {
        from: 'end',
        onRecord: () => changedRows.wake(),
      })
      // Earlier progress is unknown.
      mayWrite = await before(partsNow())
    }
    if (mayWrite) await arrivals?.close()
  }
  /** Runs the group of each generation that the rows name, and no other. */
  async function follow(): Promise<void> {
    if (!mayWrite) await askBefore()
    if (!mayWrite) return
    if (groups.size === 0) {
      await ensureLiveGeneration(partsNow())
      // A partition that is gained goes on sooner where the progress is read already.
      await progressTail.catchUp()
    }
    const readAt = performance.now()
    const generations = await listGenerations(relational, index)
    rebuilding = generations.some(({ state }) => state === 'building' || state === 'switching')
    if (rebuilding) changedRebuild.wake()
    writer.sleep?.rebuilding(rebuilding)
    const wanted = generationsToWrite(generations)
    for (const [generation, { group }] of groups) {
      if (wanted.some((one) => one.generation === generation)) continue
      await group.close()
      groups.delete(generation)
      log.info({ generation }, 'index.generation-left')
    }
    for (const one of wanted) {
      const { generation, embedder } = one
      const shown = shownGroup(index, one)
      const running = groups.get(generation)
      if (running) running.named.shown = shown
      if (running || performance.now() - readAt > rowsValidMs) continue
      const named = { generation, shown, embedder }
      groups.set(generation, {
        named,
        group: await startGenerationWriter(context, writer, named, progressTail),
      })
      log.info({ generation }, 'index.generation-joined')
    }
  }
  /** Takes the next step of a rebuild; one instance at a time, because a generation is promoted once. */
  async function step(): Promise<void> {
    if (!rebuilding) return
    const { epoch } = publisher.locationOf(vectorsCommands)
    const lease = {
      name: `switch-${index.name}`,
      holder: context.instanceId,
      ttlMs: deadlines.lease.switchMs,
    }
    await withLease(relational, lease, async () => {
      await progressTail.catchUp()
      const appliedThrough = (generation: number) => progressTail.appliedThrough(generation, epoch)
      const taken = await stepRebuild({ ...partsNow(), appliedThrough })
      if (taken !== 'nothing') log.info({ step: taken }, 'index.rebuild')
    })
  }
  async function followRows(): Promise<void> {
    followed = false
    await follow()
    followed = true
  }
  const loop = (
    what: string,
    everyMs: RepeatOptions['everyMs'],
    work: () => Promise<unknown>,
    options: Pick<RepeatOptions, 'wakeup' | 'firstAfterMs'>,
  ) => repeatUntil({ what, everyMs, ...options, signal: stopping.signal, log }, work)
  const notices = hearNotices({ relational, log }, 'flotilla_index_generations', changedRows.wake)
  const lookMs = () => {
    if (rebuilding) return rebuildLookMs
    return followed ? lookRestMs(relational) : lookSeldomMs
  }
  const loops = [
    loop('generations', lookMs, followRows, { wakeup: changedRows }),
    loop('rebuild', lookMs, step, { wakeup: changedRebuild }),
    loop('failure rows', pruneMs, () => pruneFailures(relational), prune),
    loop('stuck records of groups that are gone', pruneMs, () => pruneStuck(relational), prune),
  ]
  return {
    async close() {
      stopping.abort()
      await Promise.all([...loops, notices.close()])
      await arrivals?.close()
      await Promise.all([...groups.values()].map(({ group }) => group.close()))
      await progressTail.close()
    },
  }
}
