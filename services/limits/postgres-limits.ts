/** The limits of gateways that share a database: one statement an ask, by the database's clock. */

import { type Relational, sqlState } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { LeaseAnswer, SharedLimits } from './shared-limits.ts'

/** Rows of agents that nobody asked for so long tell nothing any more. */
const forgottenAfterS = 3_600
/** A lock that was not had, too much for the server, or a statement that it was told to stop: the next ask may do. */
const passingStates = /^(40|53|55P03|57)/

export function createPostgresLimits(relational: Pick<Relational, 'query'>): SharedLimits {
  return {
    rateShare: 1 / 5,
    refusalMsMin: 50,
    async lease(ask) {
      const text = 'select platform.lease($1::jsonb) as answer'
      const asking = relational.query<{ answer: LeaseAnswer }>(text, [JSON.stringify(ask)])
      const { rows } = await asking.catch((error: unknown) => {
        throw passingStates.test(sqlState(error) ?? '') ? away(error) : error
      })
      return rows[0]!.answer
    },
    async usedToday(key) {
      const { rows } = await relational.query<{ used: number }>('select platform.used_today($1) as used', [
        key,
      ])
      return rows[0]!.used
    },
    async sweep() {
      await relational.query(
        'delete from platform.limit_leases where touched_at < now() - make_interval(secs => $1::float8)',
        [forgottenAfterS],
      )
      await relational.query(
        "delete from platform.limit_days where day < (now() at time zone 'utc')::date - 1",
      )
    },
    close: async () => {},
  }
}

function away(cause: unknown): AppError {
  return new AppError('relational_engine_unavailable', 'The limits cannot be read at this moment.', {
    retryAfter: 1,
    cause,
  })
}

/** Operations of an agent that began today, by its uid: also where another process counts them, a second late. */
export async function readUsedToday(relational: Pick<Relational, 'query'>, key: string): Promise<number> {
  const { rows } = await relational.query<{ used: number }>('select platform.used_today($1) as used', [key])
  return rows[0]!.used
}
