/** Publishes all notes or goals once more, as they are now: for readers that have to begin again. */

import type { Relational } from '#engines/relational/port.ts'
import { noticeOn } from '#runtime/notices.ts'
import type { RecordKind } from './kind.ts'
import { outboxInsert } from './write.ts'

const pageRows = 200

/**
 * Each row is locked before its outbox row is written, so no older state of it comes behind a newer one. Resolves with the
 * number of rows; `written` hears how far it is.
 */
export async function rewriteRecords(
  relational: Relational,
  kind: RecordKind,
  { signal, written }: { signal: AbortSignal; written(rows: number): void },
): Promise<number> {
  let total = 0
  let after = 0
  while (!signal.aborted) {
    const page = await relational.transaction((tx) =>
      tx.query<{ last: number | null; rows: number }>(
        `with locked as materialized (
           select * from ${kind.table} where id > $1 order by id limit ${pageRows} for no key update),
         sent as (${outboxInsert(kind, { from: 'locked order by id', eventId: 'gen_random_uuid()::text', headers: "'{}'" })})
         select max(id) as last, count(*) as rows, ${noticeOn('flotilla_outbox')} from locked`,
        [after],
      ),
    )
    const { last, rows } = page.rows[0]!
    if (last === null) break
    after = last
    total += rows
    written(total)
  }
  return total
}
