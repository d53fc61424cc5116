/** How notes and goals are made, by requests and by operators. */

import type { Static, TObject } from 'typebox'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import type { Author, RecordRow, Written } from '#services/records/store/kind.ts'
import type { RecordHeaders } from '#services/records/store/write.ts'

/** Ids of what a request makes: the same however often it runs under one Idempotency-Key. */
interface CreationIds {
  creationKey?: string
  newThreadId?: string
}

/** The part of a resource that makes its rows. `New` is the shape of what they are made of. */
export interface Creator<Row, New extends TObject> {
  create(
    executor: SqlExecutor,
    body: Static<New>,
    by: Author,
    ids: CreationIds,
    headers: RecordHeaders,
  ): Promise<Row>
}

interface Creation<Row, New extends TObject> {
  body: Static<New>
  by: Author
  ids?: CreationIds
  headers?: RecordHeaders
  written?: Written<Row> | undefined
}

/** Wake the outbox-publisher afterwards. Throws what the resource's rules forbid; then nothing was made. */
export function createRecord<Row extends RecordRow, New extends TObject>(
  relational: Relational,
  resource: Creator<Row, New>,
  { body, by, ids = {}, headers = {}, written }: Creation<Row, New>,
): Promise<Row> {
  if (!written) return resource.create(relational, body, by, ids, headers)
  return relational.transaction(async (tx) => {
    const row = await resource.create(tx, body, by, ids, headers)
    await written(tx, null, row)
    return row
  })
}
