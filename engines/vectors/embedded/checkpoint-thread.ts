/** The thread that copies the write-ahead log of the points into their file when it is asked to. */

import { DatabaseSync } from 'node:sqlite'
import { ownData, serveWorker } from '#lib/worker-rpc.ts'

const db = new DatabaseSync(ownData<string>(), { timeout: 5_000 })

const handlers = {
  /** Copies what it can without waiting for anyone. */
  checkpoint(): void {
    db.exec('pragma synchronous = full; pragma wal_checkpoint(passive)')
  },
}

export type CheckpointHandlers = typeof handlers

serveWorker(handlers)
