/** Sends rows to a PostgreSQL server through COPY FROM STDIN. */

import { pipeline } from 'node:stream/promises'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { copyChunks, copyHeader, copyTrailer } from './copy-format.ts'
import type { CopyColumn, CopyValue } from './port.ts'

const chunkBytes = 256 * 1024

/**
 * `fault` is what the source of the rows threw: the server then keeps none, and the connection can be used as before.
 */
export type CopyResult = { rows: number } | { fault: unknown }

/** Resolves once the server has taken all rows; rejects with the server's or the connection's fault. */
export async function copyIn(
  client: pg.ClientBase,
  statement: string,
  columns: CopyColumn[],
  rows: Iterable<CopyValue[]>,
): Promise<CopyResult> {
  let source: { fault: unknown } | undefined
  function* chunks(): Generator<Buffer> {
    yield copyHeader
    try {
      for (const { parts } of copyChunks(columns, rows, chunkBytes)) yield Buffer.concat(parts)
    } catch (fault) {
      source = { fault }
      // The server is given this text as the reason why the copy ends.
      throw new Error('the rows could not be encoded')
    }
    yield copyTrailer
  }
  const copying = client.query(copyFrom(statement))
  try {
    await pipeline(chunks, copying)
  } catch (error) {
    if (source) return source
    throw error
  }
  return { rows: copying.rowCount }
}
