/**
 * Notices of changes in the database, by NOTIFY: who waits for a change hears of it at once and need not look for it
 * often. A notice may be lost with a connection that falls silent, so everybody looks now and then as well.
 */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'

/**
 * Rows of the outbox were written; a row that says which generation of an index is written has changed; an operator
 * wants a record passed; a run waits for its node; a schedule has changed; somebody asks the relational mirror.
 */
type NoticeChannel =
  | 'flotilla_outbox'
  | 'flotilla_index_generations'
  | 'flotilla_stuck_records'
  | 'flotilla_runs'
  | 'flotilla_schedules'
  | 'flotilla_mirror'

/** How often those who hear notices look for changes as well: where somebody waits for them, and where nobody does. */
export const lookEveryMs = 1_000
export const lookSeldomMs = 15_000
const lookHardlyMs = 60_000

/** Where nobody waits: within a process no notice is lost. */
export function lookRestMs({ driver }: Pick<Relational, 'driver'>): number {
  return driver === 'embedded' ? lookHardlyMs : lookSeldomMs
}

const listenAgain = { baseMs: 200, maxMs: 5_000 }

/** The column of a `returning` that sends a notice when the transaction commits. */
export function noticeOn(channel: NoticeChannel): string {
  return `pg_notify('${channel}', '') as noticed`
}

/**
 * Calls `heard` for each notice, and when listening begins or begins again (without a payload); tries until the database lets
 * it listen.
 */
export function hearNotices(
  { relational, log }: { relational: Pick<Relational, 'listen'>; log: Logger },
  channel: NoticeChannel,
  heard: (payload?: string) => void,
): Closeable {
  const stop = new AbortController()
  async function listen(): Promise<(() => Promise<void>) | undefined> {
    for (let tries = 0; !stop.signal.aborted; tries++) {
      try {
        const leave = await relational.listen(channel, heard)
        heard()
        return leave
      } catch (error) {
        log.debug({ channel, reason: describeError(error) }, 'notices.waiting')
        await sleep(backoffMs(tries, listenAgain), stop.signal)
      }
    }
    return undefined
  }
  const listening = listen()
  return {
    async close() {
      stop.abort()
      await (await listening)?.()
    },
  }
}

/** Between two notices of this instance, where writers say nothing else. */
const pauseDefaultMs = 10

/**
 * Wakes the outbox-publisher after commits: in a statement of its own, because a NOTIFY inside of a transaction makes all
 * commits of the database wait for each other, and seldom enough to cost many writers nothing.
 */
export function createOutboxBell({
  relational,
  log,
  pauseMs = pauseDefaultMs,
}: {
  relational: Pick<Relational, 'query'>
  log: Logger
  pauseMs?: number
}) {
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
    /** Returns at once. A notice that is lost delays its rows until the publisher looks by itself. */
    ring(): void {
      due = true
      ringing ??= ringWhileDue()
    },
    /** Waits for the notice that is under way. */
    async close(): Promise<void> {
      stop.abort()
      await ringing
    },
  }
}

/** For work that is done once: commands and the like. */
export async function wakeOutbox(relational: Pick<Relational, 'query'>): Promise<void> {
  await relational.query(`select ${noticeOn('flotilla_outbox')}`)
}
