/** Indexes of payload keys: rows, so that they are made again where an engine lost them. */

import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import type { PayloadIndexType, VectorStore } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Collections } from './registry.ts'

export const payloadIndexTypes = ['keyword', 'number', 'time', 'text'] as const satisfies PayloadIndexType[]
export const payloadIndexesMax = 32

export interface PayloadIndex {
  key: string
  type: PayloadIndexType
}

/**
 * Writes the row down; the same again is no fault. Throws AppError `conflict` where the key has an index of another type, or the
 * collection has 32 of them.
 */
export async function addPayloadIndex(
  relational: Relational,
  collection: string,
  { key, type }: PayloadIndex,
  note: (tx: SqlExecutor) => Promise<void>,
  createdBy: string,
): Promise<void> {
  await relational.transaction(async (tx) => {
    // One at a time for a collection: their number has a bound.
    await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`payload-indexes ${collection}`])
    const { rows } = await tx.query<PayloadIndex>(
      'select key, type from platform.payload_indexes where collection = $1',
      [collection],
    )
    const there = rows.find((row) => row.key === key)
    if (there?.type === type) return
    if (there) throw new AppError('conflict', `The key has an index of the type ${there.type}.`)
    if (rows.length >= payloadIndexesMax) {
      throw new AppError(
        'conflict',
        `The collection has ${payloadIndexesMax} indexes, which is as many as may be.`,
      )
    }
    await tx.query(
      'insert into platform.payload_indexes (collection, key, type, created_by) values ($1, $2, $3, $4)',
      [collection, key, type, createdBy],
    )
    await note(tx)
  })
}

type NamedIndex = PayloadIndex & { collection: string }

/** `<collection>/<key>:<type>`, separated by commas, as the setting has them; undefined where one has another form. */
export function readPayloadIndexes(text: string): NamedIndex[] | undefined {
  const found = text
    .split(',')
    .filter((part) => part.trim() !== '')
    .map((part) => {
      const [, collection, key, type] = /^\s*([a-z0-9][a-z0-9_-]{0,63})\/(.+):([a-z]+)\s*$/.exec(part) ?? []
      const known = payloadIndexTypes.find((one) => one === type)
      return collection && key && known ? { collection, key, type: known } : undefined
    })
  return found.includes(undefined) ? undefined : (found as NamedIndex[])
}

/**
 * After a start, for an engine that was lost or replaced meanwhile, and for the indexes that the setting names. A collection that
 * it names and that is not there yet is passed over.
 */
export async function makePayloadIndexes(
  relational: Relational,
  vectors: Pick<VectorStore, 'indexPayload'>,
  { named, collections }: { named: readonly NamedIndex[]; collections: Pick<Collections, 'list'> },
): Promise<void> {
  const stored = new Map((await collections.list()).map((one) => [one.name, one.stored]))
  for (const { collection, key, type } of named) {
    const there = stored.get(collection)
    if (there !== undefined) await vectors.indexPayload(there, key, type)
  }
  const { rows } = await relational.query<PayloadIndex & { collection: string }>(
    `select i.collection, i.key, i.type from platform.payload_indexes i
     join platform.collections c on i.collection = c.name || coalesce('~' || c.making, '')
     where c.deleted_at is null order by i.created_at`,
  )
  for (const { collection, key, type } of rows) await vectors.indexPayload(collection, key, type)
}
