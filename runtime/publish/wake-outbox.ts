/**
 * Wakes the outbox-publisher after commits: in a statement of its own, because a NOTIFY inside of a transaction makes all
 * commits of the database wait for each other, and seldom enough to cost many writers nothing.
 */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { noticeOn } from '../notices.ts'

/** Between two notices of this instance, where writers say nothing else. */
const pauseDefaultMs = 10

interface OutboxBell extends Closeable {
  /** Returns at once. A notice that is lost delays its rows until the publisher looks by itself. */
  ring(): void
}

export function createOutboxBell({
  relational,
  log,
  pauseMs = pauseDefaultMs,
}: {
  relational: Pick<Relational, 'query'>
  log: Logger
  pauseMs?: number
}): OutboxBell {
  const stop = new AbortController()
  let due = false
  let ringing: Promise<void> | undefined

  async function ringWhileDue(): Promise<void> {
    while (due) {
      due = false
      try {
        await wakeOutbox(relational)
      } catch (error) {
        log.debug({ reason: describeError(error) }, 'outbox.not-woken')
      }
      await sleep(pauseMs, stop.signal)
    }
    ringing = undefined
  }

  return {
    ring() {
      due = true
      ringing ??= ringWhileDue()
    },
    /** Waits for the notice that is under way. */
    async close() {
      stop.abort()
      await ringing
    },
  }
}

/** For work that is done once: commands and the like. */
export async function wakeOutbox(relational: Pick<Relational, 'query'>): Promise<void> {
  await relational.query(`select ${noticeOn('flotilla_outbox')}`)
}
