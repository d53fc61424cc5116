/** Moves SQLite's write-ahead log into the database file while writes go on, so that no search waits for it. */

import { statSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { AppError, describeError } from '#lib/errors.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import type { CheckpointHandlers } from './checkpoint-thread.ts'
import type { MessageLog } from './message-log.ts'

/** From this size on the log is moved. */
const logBytes = 24 * 2 ** 20
/** When the helper cannot keep up, writing waits for it here. */
const logBytesMax = 256 * 2 ** 20

export interface Checkpoints {
  /** To be called after commits, with no transaction open. */
  committed(): void
  close(): Promise<void>
}

/**
 * A thread of its own copies the log without holding a lock, which takes long and holds nothing up. What was written
 * meanwhile is little: the writer copies that itself, so that the log starts again from its beginning.
 */
export function openCheckpoints(writer: DatabaseSync, path: string, log: MessageLog): Checkpoints {
  writer.exec('pragma wal_autocheckpoint = 0')
  // Started when first needed: many stores never get so far.
  let helper: WorkerClient<CheckpointHandlers> | undefined
  let state: 'rest' | 'copying' | 'copied' | 'helperless' = 'rest'

  async function copy(): Promise<void> {
    state = 'copying'
    try {
      helper ??= openHelper(path)
      await helper.call.checkpoint()
      state = 'copied'
    } catch (error) {
      log('warn', 'vectors.checkpoint-helper-failed', { cause: describeError(error) })
      state = 'helperless'
    }
  }
  return {
    committed() {
      const bytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0
      if (bytes < logBytes) return
      if (state === 'copied' || state === 'helperless' || bytes > logBytesMax) {
        // The file keeps its size when the log starts again, so it would always look full: cut it.
        writer.exec('pragma wal_checkpoint(truncate)')
        if (state === 'copied') state = 'rest'
      } else if (state === 'rest') void copy()
    },
    async close() {
      await helper?.terminate()
    },
  }
}

function openHelper(path: string): WorkerClient<CheckpointHandlers> {
  const entry = new URL('./checkpoint-thread.ts', import.meta.url)
  return openWorker<CheckpointHandlers>(
    { entry, name: 'vectors-checkpoint', data: path },
    (cause) => new AppError('internal_error', 'The checkpoint thread ended.', { cause }),
  )
}
