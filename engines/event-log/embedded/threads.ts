/** Starts the two threads of the log, limits how long a caller waits for them, and ends them in reverse order. */

import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import type { ReaderData, ReaderHandlers } from './reader-thread.ts'
import type { WriterData, WriterHandlers } from './writer-thread.ts'

/** Opening reads the ends of all partitions, and what a killed process left in the WAL. */
const openTimeoutMs = deadlines.embedded.openMs
const closeTimeoutMs = deadlines.embedded.closeMs

export interface Threads {
  writer: WorkerClient<WriterHandlers>
  reader: WorkerClient<ReaderHandlers>
  loaded: Awaited<ReturnType<WriterHandlers['open']>>
  /** False once one of the threads has ended. */
  alive(): boolean
  close(): Promise<void>
}

export function unavailable(cause: unknown): AppError {
  return new AppError('log_unavailable', 'The event log does not answer.', { retryAfter: 1, cause })
}

/** The result; AppError `log_unavailable` when the engine fails or `ms` pass first. */
export async function bounded<T>(promise: Promise<T>, ms: number): Promise<T> {
  try {
    return await withTimeout(promise, ms, () => unavailable(new Error(`no answer within ${ms} ms`)))
  } catch (error) {
    throw error instanceof AppError ? error : unavailable(error)
  }
}

/** The writer comes first: it makes the file. */
export async function openThreads(data: WriterData & ReaderData): Promise<Threads> {
  let alive = true
  const died = (cause: unknown) => {
    alive = false
    return unavailable(cause)
  }
  const writer = openWorker<WriterHandlers>(
    { entry: new URL('./writer-thread.ts', import.meta.url), name: 'log-writer', data },
    died,
  )
  try {
    const loaded = await bounded(writer.call.open(), openTimeoutMs)
    const reader = openWorker<ReaderHandlers>(
      { entry: new URL('./reader-thread.ts', import.meta.url), name: 'log-reader', data },
      died,
    )
    return {
      writer,
      reader,
      loaded,
      alive: () => alive,
      async close() {
        await closeThread(reader)
        await closeThread(writer)
      },
    }
  } catch (error) {
    await writer.terminate()
    throw error
  }
}

/** A thread that does not end its work in time is ended: what it had committed stays. */
async function closeThread(thread: Threads['writer'] | Threads['reader']): Promise<void> {
  await bounded<void>(thread.call.close(), closeTimeoutMs).catch(() => {})
  await thread.terminate()
}
