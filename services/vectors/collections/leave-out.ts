/** Tells a writer which records belong to collections that are gone, and deletes those that came too late in the log, too. */

import type { Logger } from 'pino'
import { isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, unavailable } from '#lib/outcome.ts'
import type { Message, Publisher } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parsePointKey, vectorsCommands } from '#topics/catalog.ts'
import type { Collections, Standing } from './registry.ts'

type Records = readonly Pick<Message<VectorUpsert>, 'key' | 'value' | 'timestamp'>[]

/** By stored name; the four are not in it. */
export type Standings = ReadonlyMap<string, Standing>

const none: Standings = new Map()

/**
 * What to do with the collections of these records; an outcome for all of them while only the database knows it and is away.
 * At once where all are the four.
 */
export function readStandings(
  records: Records,
  collections: Pick<Collections, 'standing'>,
): Standings | Promise<Standings | BatchOutcome> {
  const own = new Set(records.flatMap(({ key }) => ownCollection(key) ?? []))
  return own.size === 0 ? none : askStandings(own, collections)
}

async function askStandings(
  own: Iterable<string>,
  collections: Pick<Collections, 'standing'>,
): Promise<Standings | BatchOutcome> {
  const standings = new Map<string, Standing>()
  try {
    for (const stored of own) standings.set(stored, await collections.standing(stored))
  } catch (error) {
    if (!isUnavailable(error)) throw error
    return unavailable('relational', error.message)
  }
  return standings
}

/** The stored name in a record's key where it is not one of the four. */
function ownCollection(key: string): string | null {
  const mark = key.indexOf('~')
  const slash = key.indexOf('/')
  return mark > 0 && mark < slash ? key.slice(0, slash) : null
}

/** True for a record of a collection of which nothing is left. */
export function isLeftOut(stored: string, standings: Standings): boolean {
  return (standings.get(stored) ?? 'written') !== 'written'
}

/**
 * Deletes points that were written after the deletion of their collection had passed them: a request may have been on its way
 * for long. Throws AppError `log_unavailable`.
 */
export async function deleteLate(
  { publisher, log }: { publisher: Pick<Publisher, 'publish'>; log: Logger },
  records: Records,
  standings: Standings,
): Promise<void> {
  for (const [collection, standing] of standings) {
    if (standing !== 'written' && standing.purgedAt === null) {
      log.warn({ collection }, 'collections.unknown-making')
    }
  }
  if (standings.size === 0) return
  const late = records.flatMap(({ key, value, timestamp }) => {
    const point = value === null ? null : parsePointKey(key)
    const standing = point && standings.get(point.collection)
    if (!point || !standing || standing === 'written' || standing.purgedAt === null) return []
    return timestamp > standing.purgedAt.getTime() ? [{ key: point, value: null }] : []
  })
  if (late.length > 0) await publisher.publish(vectorsCommands, late)
}
