/**
 * Deletes the points of deleted collections in the log, page by page, and then what the engines keep of them. How far it is
 * follows from the rows and the engine alone, so it goes on after any kill, on any instance.
 */

import type { PartitionRange } from '#engines/event-log/port.ts'
import type { VectorStore } from '#engines/vectors/port.ts'
import { sleep, type Wakeup } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { withLease } from '#runtime/leases.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { isMirrorOff } from '../relational/settings.ts'
import { groupOfGeneration, indexes, listGenerations, relationalIndex } from '../write/rebuild.ts'
import { listDying, listPurged, markPurged } from './rows.ts'

type Context = Pick<
  ServiceContext<'eventLog' | 'vectors' | 'relational', unknown>,
  'engines' | 'publisher' | 'log' | 'instanceId' | 'env'
>

const pagePoints = 200
/** Between two pages, so that writes of others come first. */
const pagePauseMs = 100
const lookMs = 2_000
const lookSeldomMs = 60_000
const sweepEveryMs = 3_600_000
/** A request that was accepted before the deletion has published its points by then, unless its process was stopped. */
const lateMs = 120_000

type Dying = Awaited<ReturnType<typeof listDying>>[number]

/** Where the log ended, and how long the collection had been deleted then. */
interface Waiting {
  ends: PartitionRange[]
  ageMs: number
}

/** `wakeup` ends the pause after a change. One instance works at a time. */
export function startPurging(context: Context, wakeup: Wakeup, onTheirWayMs = lateMs): Closeable {
  const { log, instanceId: holder } = context
  const { relational, vectors } = context.engines
  const stop = new AbortController()
  const waiting = new Map<string, Waiting>()
  let some = false
  let dyingLast = 0
  /** By performance.now(): the last look into the engine, and until when each look goes there. */
  let sweptMs = Number.NEGATIVE_INFINITY
  let sweepUntilMs = Number.NEGATIVE_INFINITY

  async function look(): Promise<void> {
    const dying = await listDying(relational)
    // Purged, here or by another instance.
    if (dying.length < dyingLast) sweepUntilMs = performance.now() + lookSeldomMs
    dyingLast = dying.length
    const left = await leftInEngine()
    some = dying.length + left.length > 0 || performance.now() < sweepUntilMs
    if (dying.length + left.length === 0) return
    const lease = { name: 'collections-purge', holder, ttlMs: deadlines.lease.pruneMs }
    await withLease(relational, lease, async (held) => {
      const signal = AbortSignal.any([stop.signal, held.signal])
      for (const stored of left) await vectors.dropCollection(stored)
      for (const one of dying) if (!signal.aborted) await step(one, signal)
    })
  }

  /** Collections that are purged, and still in the engine: also those that a write made again that was on its way for long. */
  async function leftInEngine(): Promise<string[]> {
    const now = performance.now()
    if (now > sweepUntilMs && now < sweptMs + sweepEveryMs) return []
    sweptMs = now
    const there = (await vectors.stats()).map(({ collection }) => collection)
    return listPurged(relational, there)
  }

  /** Deletes what the engine shows of it; when that is nothing, and nothing can come any more, it is purged. */
  async function step(one: Dying, signal: AbortSignal): Promise<void> {
    const making = one.making as string
    const before = waiting.get(making)
    if (before && !(await havePassed(context, before.ends))) return
    const points = await deletePoints(context, one.stored, signal)
    if (signal.aborted) return
    if (points > 0) log.info({ collection: one.stored, points }, 'collections.points-deleted')
    const isOver = points === 0 && before !== undefined && before.ageMs > onTheirWayMs
    if (!isOver) {
      waiting.set(making, { ends: await endsOf(context), ageMs: one.age_ms })
      return
    }
    await markPurged(relational, one)
    waiting.delete(making)
    log.info({ collection: one.stored }, 'collections.purged')
  }

  const options = {
    what: 'deletion of collections',
    everyMs: () => (some ? lookMs : lookSeldomMs),
    firstAfterMs: lookMs,
    signal: stop.signal,
    wakeup,
    log,
  }
  const running = repeatUntil(options, look)
  return {
    async close() {
      stop.abort()
      await running
    },
  }
}

/** Publishes tombstones for all points that the engine holds now; resolves with their number. */
async function deletePoints(
  { engines, publisher }: Context,
  stored: string,
  signal: AbortSignal,
): Promise<number> {
  const { vectors }: { vectors: Pick<VectorStore, 'scroll'> } = engines
  let points = 0
  for (let offset: string | undefined; !signal.aborted; ) {
    const page = await vectors.scroll(stored, {
      limit: pagePoints,
      withPayload: false,
      ...(offset === undefined ? {} : { offset }),
    })
    const tombstones = page.points.map(({ id }) => ({ key: { collection: stored, id }, value: null }))
    if (tombstones.length > 0) await publisher.publish(vectorsCommands, tombstones)
    points += tombstones.length
    if (page.next === null) break
    offset = page.next
    await sleep(pagePauseMs, signal)
  }
  return points
}

function endsOf({ engines, publisher }: Context): Promise<PartitionRange[]> {
  return engines.eventLog.offsets(publisher.locationOf(vectorsCommands).physicalName)
}

/** True when every index that is in use has read the log up to these ends. */
async function havePassed(context: Context, ends: PartitionRange[]): Promise<boolean> {
  const { eventLog, relational } = context.engines
  const { physicalName } = context.publisher.locationOf(vectorsCommands)
  for (const index of indexes) {
    // A mirror that is switched on again reads the deletions then.
    if (index === relationalIndex && isMirrorOff(context.env)) continue
    const generations = await listGenerations(relational, index)
    for (const { generation } of generations.filter(({ state }) => state !== 'retired')) {
      const { committed } = await eventLog.groupState(groupOfGeneration(index, generation), physicalName)
      const read = new Map(committed.map((one) => [one.partition, one.offset]))
      if (ends.some(({ partition, start, end }) => end > Math.max(start, read.get(partition) ?? 0)))
        return false
    }
  }
  return true
}
