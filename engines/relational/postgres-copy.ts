/** Sends rows to a PostgreSQL server through COPY FROM STDIN, as a query object of pg (its Submittable protocol). */

import type pg from 'pg'
import { copyChunks, copyHeader, copyTrailer } from './copy-format.ts'
import type { CopyColumn, CopyValue } from './port.ts'

const chunkBytes = 256 * 1024

/** What pg's connection offers to a query object; its types leave this out. */
interface Connection {
  query(text: string): void
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
  sendCopyFail(message: string): void
  stream: { writableNeedDrain: boolean; once(event: 'drain' | 'close', listener: () => void): void }
}

/**
 * `fault` is what the source of the rows threw: the server then keeps none, and the connection can be used as before.
 */
export type CopyResult = { rows: number } | { fault: unknown }

/** Resolves once the server has taken all rows; rejects with the server's or the connection's fault. */
export function copyIn(
  client: pg.ClientBase,
  statement: string,
  columns: CopyColumn[],
  rows: Iterable<CopyValue[]>,
): Promise<CopyResult> {
  return new Promise((resolve, reject) => {
    let copied = 0
    let source: { fault: unknown } | undefined
    const submittable = {
      /** pg wraps it to stop its time-out: so every end must go through it. */
      callback(error: unknown) {
        if (source) resolve(source)
        else if (error) reject(error)
        else resolve({ rows: copied })
      },
      submit: (connection: Connection) => connection.query(statement),
      handleCopyInResponse(connection: Connection) {
        send(connection, columns, rows).catch((fault: unknown) => {
          source = { fault }
          connection.sendCopyFail('the rows could not be encoded')
        })
      },
      handleCommandComplete(message: { text: string }) {
        copied = Number(message.text.split(' ').at(-1))
      },
      handleError: (error: unknown) => submittable.callback(error),
      handleReadyForQuery: () => submittable.callback(null),
      handleRowDescription() {},
      handleDataRow() {},
      handlePortalSuspended() {},
      handleEmptyQuery() {},
      handleCopyData() {},
    }
    // The types of pg know a part of what pg itself calls on a Submittable.
    client.query(submittable as unknown as pg.Submittable)
  })
}

/** Waits for the socket whenever it is full, so that memory holds a few chunks only. */
async function send(
  connection: Connection,
  columns: CopyColumn[],
  rows: Iterable<CopyValue[]>,
): Promise<void> {
  connection.sendCopyFromChunk(copyHeader)
  for (const { body } of copyChunks(columns, rows, chunkBytes)) {
    connection.sendCopyFromChunk(body)
    if (connection.stream.writableNeedDrain) await drained(connection)
  }
  connection.sendCopyFromChunk(copyTrailer)
  connection.endCopyFrom()
}

function drained(connection: Connection): Promise<void> {
  return new Promise((resolve) => {
    connection.stream.once('drain', resolve)
    connection.stream.once('close', resolve)
  })
}
