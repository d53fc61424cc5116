/** The outbox-publisher: publishes the rows of the transactional outbox, one instance at a time, in commit order per key. */

import { Gauge, type Registry } from 'prom-client'
import { Type } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import { createWakeup, type Wakeup } from '#lib/backoff.ts'
import type { Closeable } from '#lib/resource.ts'
import { hearNotices, lookEveryMs, lookSeldomMs } from '#runtime/notices.ts'
import { type OutboxParts, withOutbox } from '#runtime/publish/outbox.ts'
import { RefusedKeys } from '#runtime/publish/refused-keys.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'

/** How often the active instance looks while there is more to do, and the others look for the lease. */
const busyLookMs = 100
const standbyMs = 1_000
const oldestMetric = 'flotilla_outbox_oldest_record_seconds'
const refusedMetric = 'flotilla_outbox_refused_keys'

type Context = ServiceContext<'eventLog' | 'relational', unknown>

export const outboxPublisher = defineWorker({
  name: 'outbox-publisher',
  purpose: 'publishes what transactions left in the outbox, in the order of their commits',
  needs: ['eventLog', 'relational'],
  config: Type.Object({}),
  start: startOutboxPublisher,
})

async function startOutboxPublisher(context: Context): Promise<Closeable> {
  const stopping = new AbortController()
  const { signal } = stopping
  const { engines, publisher, log, instanceId, metrics } = context
  const refused = new RefusedKeys()
  const parts = { relational: engines.relational, publisher, log, holder: instanceId, refused }
  // The alarm: it is 0 while all is well.
  expose(
    metrics,
    refusedMetric,
    'Keys of the outbox whose oldest row is refused by its topic',
    () => refused.size,
  )
  expose(
    metrics,
    oldestMetric,
    'Age of the oldest row of the outbox that is not published; 0 without any',
    () => oldestSeconds(engines.relational).catch(() => Number.NaN),
  )
  const written = createWakeup()
  const notices = hearNotices(parts, 'flotilla_outbox', written.wake)
  const loop = repeatUntil({ what: 'outbox', everyMs: standbyMs, signal, log }, () =>
    publishWhileActive(parts, written, signal),
  )
  return {
    async close() {
      stopping.abort()
      await loop
      await notices.close()
    },
  }
}

/** Keeps the lease and publishes until it is lost or the service stops; nothing while another instance is active. */
async function publishWhileActive(parts: OutboxParts, written: Wakeup, stopping: AbortSignal): Promise<void> {
  // Within a process no notice is lost.
  const restMs = parts.relational.driver === 'embedded' ? lookSeldomMs : lookEveryMs
  await withOutbox(parts, async (outbox) => {
    const over = AbortSignal.any([stopping, outbox.signal])
    for (let looks = 0; !over.aborted; looks++) {
      const published = await outbox.publish()
      if (looks === 0) parts.log.info('outbox.active')
      if (published > 0) parts.log.debug({ published }, 'outbox.published')
      // What a publish left for its lease, and rows whose keys rest, are announced by nobody.
      const more = published > 0 || parts.refused.size > 0
      await written.sleep(more ? busyLookMs : restMs, over)
    }
  })
}

/** Of the newest service of this process: one that stopped before had rows and keys of its own. */
function expose(registry: Registry, name: string, help: string, read: () => number | Promise<number>): void {
  registry.removeSingleMetric(name)
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      this.set(await read())
    },
  })
}

/** Rows are there for moments only while all is well. Every instance says the same, the active one or not. */
async function oldestSeconds(relational: Relational): Promise<number> {
  const { rows } = await relational.query<{ seconds: number }>(
    `select greatest(0, extract(epoch from clock_timestamp() - created_at))::float8 as seconds
     from platform.outbox order by id limit 1`,
  )
  return rows[0]?.seconds ?? 0
}
