/** The outbox-publisher: publishes the rows of the transactional outbox, one instance at a time, in commit order per key. */

import { Type } from 'typebox'
import { sleep } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { withLease } from '#runtime/leases.ts'
import { outboxLeaseName, publishUnderLease } from '#runtime/outbox.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/service.ts'

const leaseTtlMs = deadlines.lease.outboxMs
/** How often the active instance looks for rows, and the others for the lease. */
const lookMs = 100
const standbyMs = 1_000

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
  const loop = repeatUntil({ what: 'outbox', everyMs: standbyMs, signal, log: context.log }, () =>
    publishWhileActive(context, signal),
  )
  return {
    async close() {
      stopping.abort()
      await loop
    },
  }
}

/** Keeps the lease and publishes until it is lost or the service stops; nothing while another instance is active. */
async function publishWhileActive(context: Context, stopping: AbortSignal): Promise<void> {
  const { relational } = context.engines
  const options = { name: outboxLeaseName, holder: context.instanceId, ttlMs: leaseTtlMs }
  await withLease(relational, options, async (lease) => {
    context.log.info({ epoch: lease.epoch }, 'outbox.active')
    const parts = { relational, publisher: context.publisher, log: context.log }
    while (!stopping.aborted && !lease.signal.aborted) {
      const published = await publishUnderLease(parts, lease)
      if (published > 0) context.log.debug({ published }, 'outbox.published')
      await sleep(lookMs, stopping)
    }
  })
}
