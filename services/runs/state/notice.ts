/** Wakes dispatchers and the outbox-publisher after a commit, without waiting for either. */

import type { Relational } from '#engines/relational/port.ts'

/** Its payload is the slug of the node for which a run waits, or `cancelNotice`. */
export const runsChannel = 'flotilla_runs'
/** No slug. */
export const cancelNotice = '!cancel'

/**
 * A statement of its own: a NOTIFY inside of a transaction makes all commits of the database wait for each other. One that
 * fails delays the run until the next sweep.
 */
export function wakeDispatchers(relational: Pick<Relational, 'query'>, payload: string): void {
  relational
    .query(`select pg_notify('${runsChannel}', $1), pg_notify('flotilla_outbox', '')`, [payload])
    .catch(() => {})
}
