/** Indexes of payload keys: rows, so that they are made again where an engine lost them. */

import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import type { PayloadIndexType, VectorStore } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'

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

/** After a start, for an engine that was lost or replaced meanwhile. */
export async function makePayloadIndexes(
  relational: Relational,
  vectors: Pick<VectorStore, 'indexPayload'>,
): Promise<void> {
  const { rows } = await relational.query<PayloadIndex & { collection: string }>(
    `select i.collection, i.key, i.type from platform.payload_indexes i
     join platform.collections c on i.collection = c.name || coalesce('~' || c.making, '')
     where c.deleted_at is null order by i.created_at`,
  )
  for (const { collection, key, type } of rows) await vectors.indexPayload(collection, key, type)
}
