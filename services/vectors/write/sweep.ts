/**
 * Deletes points that have expired, through the log, so that a rebuild does not bring them back and readers of the topic learn of it. Each
 * deletion names the record that it was made from: a point that is written in between stays.
 */

import type { VectorStore } from '#engines/vectors/port.ts'
import { sleep } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { createLru } from '#lib/lru.ts'
import type { Closeable } from '#lib/resource.ts'
import { withLease } from '#runtime/leases.ts'
import { startRepeating } from '#runtime/repeat.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { basisHeaders } from './based-records.ts'

type Context = Pick<
  ServiceContext<'vectors' | 'relational', unknown>,
  'engines' | 'publisher' | 'log' | 'instanceId'
>

/** Readers see none of them meanwhile. */
const usualMs = 30_000
const pagePoints = 500
/** Between two pages, so that writes of others come first. */
const pagePauseMs = 100
/** A deletion that the writer has not come to yet is not published again for so long. */
const onItsWayMs = 60_000
const onTheirWayMax = 20_000

/** One instance sweeps at a time. */
export function startSweeping(context: Context, everyMs = usualMs): Closeable {
  const { engines, publisher, log, instanceId: holder } = context
  const { relational } = engines
  const vectors: Pick<VectorStore, 'expired' | 'stats'> = engines.vectors
  const stop = new AbortController()
  const published = createLru<string, true>(onTheirWayMax, { ttl: onItsWayMs })

  /** Resolves with how many points were new. */
  async function sweepPage(collection: string): Promise<number> {
    const fresh = (await vectors.expired(collection, pagePoints)).flatMap(({ id, position }) => {
      const place = `${position.epoch}/${position.offset}/${collection}/${id}`
      return published.get(place) ? [] : [{ id, position, place }]
    })
    if (fresh.length === 0) return 0
    const deletions = fresh.map(({ id, position }) => {
      return { key: { collection, id }, value: null, headers: basisHeaders(position) }
    })
    await publisher.publish(vectorsCommands, deletions)
    for (const { place } of fresh) published.set(place, true)
    return fresh.length
  }
  async function sweep(collections: string[], signal: AbortSignal): Promise<void> {
    for (const collection of collections) {
      let points = 0
      for (let page = -1; page !== 0 && !signal.aborted; points += Math.max(0, page)) {
        if (points > 0) await sleep(pagePauseMs, signal)
        page = await sweepPage(collection)
      }
      if (points > 0) log.info({ collection, points }, 'vectors.expired')
    }
  }
  /** Where nothing has expired no lease is asked for. */
  async function look(): Promise<void> {
    const due: string[] = []
    for (const { collection } of await vectors.stats()) {
      if (stop.signal.aborted) return
      if ((await vectors.expired(collection, 1)).length > 0) due.push(collection)
    }
    if (due.length === 0) return
    const lease = { name: 'expired-points', holder, ttlMs: deadlines.lease.pruneMs }
    await withLease(relational, lease, (held) => sweep(due, AbortSignal.any([stop.signal, held.signal])))
  }
  const options = { what: 'deletion of expired points', everyMs, firstAfterMs: everyMs, log }
  const running = startRepeating(options, look)
  return {
    async close() {
      stop.abort()
      await running.close()
    },
  }
}
