/** Failure rows say why points of an operation could not be applied; GET /v1/operations reads them for seven days. */

import type { Relational } from '#engines/relational/port.ts'
import { parsePointKey } from '#topics/catalog.ts'
import type { Index } from './indexes.ts'
import { operationHeader } from './operation.ts'

interface ParkedRecord {
  message: { key: string } | null
  position: { partition: number; offset: number }
  headers: Record<string, string>
  reason: string
}

const errorCharactersMax = 300

/** Writes a row for each record that belongs to an operation. Writing the same records again changes nothing. */
export async function writeFailures(
  relational: Relational,
  index: Index,
  parked: ParkedRecord[],
): Promise<void> {
  const rows = parked.filter((record) => record.headers[operationHeader] !== undefined)
  if (rows.length === 0) return
  await relational.query(
    `insert into platform.operation_failures (operation, partition, "offset", point_id, error, index_name)
     select *, $6 from unnest($1::text[], $2::int[], $3::bigint[], $4::text[], $5::text[])
     on conflict do nothing`,
    [
      rows.map((row) => row.headers[operationHeader] as string),
      rows.map((row) => row.position.partition),
      rows.map((row) => row.position.offset),
      rows.map((row) => pointIdOf(row)),
      rows.map((row) => row.reason.slice(0, errorCharactersMax)),
      index.name,
    ],
  )
}

export async function pruneFailures(relational: Relational): Promise<void> {
  await relational.query(
    `delete from platform.operation_failures where created_at < now() - interval '7 days'`,
  )
}

/** Postgres text holds no NUL; an id never does (the gateway refuses it), a damaged key may. */
function pointIdOf(record: ParkedRecord): string | null {
  const id = record.message ? (parsePointKey(record.message.key)?.id ?? null) : null
  return id?.replaceAll('\0', '\ufffd') ?? null
}
