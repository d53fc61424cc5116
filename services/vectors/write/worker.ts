/**
 * Runs the reader groups of an index, one for each generation that the rows name, and promotes a rebuilt generation.
 */

import { createWakeup, type Wakeup } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import type { RunningConsumer } from '#runtime/consume/consumer.ts'
import { followRecords } from '#runtime/follow/follow-topic.ts'
import { withLease } from '#runtime/leases.ts'
import { hearNotices, lookRestMs, lookSeldomMs } from '#runtime/notices.ts'
import { type RepeatOptions, repeatUntil } from '#runtime/repeat.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import {
  type IndexWriter,
  pruneFailures,
  startGenerationWriter,
  type WriterContext,
} from './generation-writer.ts'
import { openProgressTail, type ProgressTail } from './progress.ts'
import {
  ensureLiveGeneration,
  generationsToWrite,
  listGenerations,
  type RebuildParts,
  shownGroup,
  stepRebuild,
} from './rebuild.ts'
import { pruneStuck } from './stuck.ts'

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
  before?: (parts: RebuildParts) => Promise<boolean>,
): Promise<Closeable> {
  const stopping = new AbortController()
  const { eventLog, relational } = context.engines
  const progressTail = await openProgressTail({ ...context, eventLog, index: writer.index })
  const running: Running = {
    context,
    writer,
    progressTail,
    groups: new Map(),
    shown: new Map(),
    rebuilding: false,
    followed: false,
    before,
    changed: { generations: createWakeup(), rebuild: createWakeup() },
    arrivals: undefined,
  }
  const { changed } = running
  const { signal } = stopping
  const loop = (
    what: string,
    everyMs: RepeatOptions['everyMs'],
    work: () => Promise<unknown>,
    options: Pick<RepeatOptions, 'wakeup' | 'firstAfterMs'> = {},
  ) => repeatUntil({ what, everyMs, ...options, signal, log: context.log }, work)
  const { wake } = changed.generations
  const notices = hearNotices({ relational, log: context.log }, 'flotilla_index_generations', wake)
  const lookMs = () => {
    if (running.rebuilding) return rebuildLookMs
    return running.followed ? lookRestMs(relational) : lookSeldomMs
  }
  const loops = [
    loop('generations', lookMs, () => follow(running), { wakeup: changed.generations }),
    loop('rebuild', lookMs, () => stepUnderLease(running), { wakeup: changed.rebuild }),
    loop('failure rows', pruneMs, () => pruneFailures(relational), prune),
    loop('stuck records of groups that are gone', pruneMs, () => pruneStuck(relational), prune),
  ]
  return {
    async close() {
      stopping.abort()
      await Promise.all([...loops, notices.close()])
      await running.arrivals?.close()
      await Promise.all([...running.groups.values()].map((group) => group.close()))
      await progressTail.close()
    },
  }
}

interface Running {
  context: WriterContext
  writer: IndexWriter
  progressTail: ProgressTail
  groups: Map<number, RunningConsumer>
  /** What people call the group of a generation, as the rows said last. */
  shown: Map<number, string>
  /** As the rows said last. */
  rebuilding: boolean
  /** False after a fault: then they are read again sooner. */
  followed: boolean
  before: ((parts: RebuildParts) => Promise<boolean>) | undefined
  changed: { generations: Wakeup; rebuild: Wakeup }
  /** Hears of records while `before` says no. */
  arrivals: Closeable | undefined
}

function partsOf({ context, writer }: Running): RebuildParts {
  const { eventLog, relational } = context.engines
  const { physicalName } = context.publisher.locationOf(vectorsCommands)
  return { eventLog, relational, index: writer.index, engine: writer.engine, physicalName }
}

async function follow(running: Running): Promise<void> {
  running.followed = false
  await followGenerations(running)
  running.followed = true
}

/** Runs the group of each generation that the rows name, and no other. */
async function followGenerations(running: Running): Promise<void> {
  const { context, writer, groups, shown, progressTail } = running
  const parts = partsOf(running)
  if (groups.size === 0) {
    if (!(await mayBegin(running, parts))) return
    await ensureLiveGeneration(parts)
    // A partition that is gained goes on sooner where the progress is read already.
    await progressTail.catchUp()
  }
  const readAt = performance.now()
  const generations = await listGenerations(parts.relational, parts.index)
  running.rebuilding = generations.some((one) => one.state === 'building' || one.state === 'switching')
  if (running.rebuilding) running.changed.rebuild.wake()
  const wanted = generationsToWrite(generations)
  for (const [generation, group] of groups) {
    if (wanted.some((one) => one.generation === generation)) continue
    await group.close()
    groups.delete(generation)
    context.log.info({ generation }, 'index.generation-left')
  }
  for (const one of wanted) {
    const { generation } = one
    shown.set(generation, shownGroup(writer.index, one))
    if (groups.has(generation) || performance.now() - readAt > rowsValidMs) continue
    const named = { generation, shownAs: () => shown.get(generation)! }
    groups.set(generation, await startGenerationWriter(context, writer, named, progressTail))
    context.log.info({ generation }, 'index.generation-joined')
  }
}

async function mayBegin(running: Running, parts: RebuildParts): Promise<boolean> {
  const { before, changed } = running
  if (!before) return true
  let may = await before(parts)
  if (!may && !running.arrivals) {
    const { publisher, log } = running.context
    const onRecord = () => changed.generations.wake()
    running.arrivals = await followRecords({ eventLog: parts.eventLog, publisher, log }, vectorsCommands, {
      from: 'end',
      onRecord,
    })
    // Earlier progress is unknown.
    may = await before(parts)
  }
  if (!may) return false
  running.before = undefined
  await running.arrivals?.close()
  return true
}

/** Takes the next step of a rebuild; one instance at a time, because a generation is promoted once. */
async function stepUnderLease(running: Running): Promise<void> {
  const { context, writer, progressTail } = running
  if (!running.rebuilding) return
  const parts = partsOf(running)
  const { epoch } = context.publisher.locationOf(vectorsCommands)
  const lease = {
    name: `switch-${writer.index.name}`,
    holder: context.instanceId,
    ttlMs: deadlines.lease.switchMs,
  }
  await withLease(parts.relational, lease, async () => {
    await progressTail.catchUp()
    const step = await stepRebuild({
      ...parts,
      appliedThrough: (generation) => progressTail.appliedThrough(generation, epoch),
    })
    if (step !== 'nothing') context.log.info({ step }, 'index.rebuild')
  })
}
