/** Lists of large rows for the command line: all pages but the last go before the result, so that no message is too long. */

import type { Output } from '#runtime/start/control.ts'

/** Gives the pages up to `limit` rows to `output`, each when there is room for it; resolves with the last one. */
export async function listPages<Row, Cursor>(
  output: Output<Row[]>,
  limit: number,
  read: (limit: number, cursor: Cursor | undefined) => Promise<{ rows: Row[]; next: Cursor | undefined }>,
): Promise<Row[]> {
  let cursor: Cursor | undefined
  for (let left = limit; ; ) {
    const { rows, next } = await read(left, cursor)
    left -= rows.length
    if (next === undefined || left <= 0) return rows
    await output.item(rows)
    cursor = next
  }
}
