/** The outbox-publisher: publishes the rows of the transactional outbox, one instance at a time, in commit order per key. */

import { Gauge, type Registry } from 'prom-client'
import { Type } from 'typebox'
import { sleep } from '#lib/backoff.ts'
import type { Closeable } from '#lib/resource.ts'
import { RefusedKeys } from '#runtime/outbox/refused-keys.ts'
import { type OutboxParts, withOutbox } from '#runtime/outbox.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/service.ts'

/** How often the active instance looks for rows, and the others for the lease. */
const lookMs = 100
const standbyMs = 1_000
const refusedMetric = 'flotilla_outbox_keys_refused'

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
  exposeRefused(metrics, refused)
  const loop = repeatUntil({ what: 'outbox', everyMs: standbyMs, signal, log }, () =>
    publishWhileActive(parts, signal),
  )
  return {
    async close() {
      stopping.abort()
      await loop
    },
  }
}

/** Keeps the lease and publishes until it is lost or the service stops; nothing while another instance is active. */
async function publishWhileActive(parts: OutboxParts, stopping: AbortSignal): Promise<void> {
  await withOutbox(parts, async (outbox) => {
    parts.log.info('outbox.active')
    while (!stopping.aborted && !outbox.signal.aborted) {
      const published = await outbox.publish()
      if (published > 0) parts.log.debug({ published }, 'outbox.published')
      await sleep(lookMs, stopping)
    }
  })
}

/** The alarm: it is 0 while all is well. */
function exposeRefused(registry: Registry, refused: RefusedKeys): void {
  registry.removeSingleMetric(refusedMetric)
  new Gauge({
    name: refusedMetric,
    help: 'Keys of the outbox whose oldest row is refused by its topic',
    registers: [registry],
    collect() {
      this.set(refused.size)
    },
  })
}
