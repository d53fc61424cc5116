/** What all drivers do before a partition goes to another member of its group. */

import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { ConsumerListener } from './port.ts'

const { handOverMs } = deadlines.session

/** Resolves when the listener has ended its work on these; rejects when it fails, or takes too long. */
export async function endWork(listener: ConsumerListener, partitions: number[]): Promise<void> {
  await withTimeout(
    Promise.resolve(listener.revoked?.(partitions)),
    handOverMs,
    () => new Error('handing over takes too long'),
  )
}
