/** Keeps the thread of the embedded Postgres running: starts it at once, and again with its listeners when it died. */

import type { Logger } from 'pino'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import type { PgliteThread, PgliteThreadData } from './pglite-thread.ts'
import { relationalUnavailable } from './sql-faults.ts'

export type Thread = WorkerClient<PgliteThread>

/** Statements that wait or run at once. */
const callsMax = 1_000
const closeTimeoutMs = deadlines.embedded.closeMs
/** A thread that died is not started again more often than this. */
const restartMs = 1_000

export interface Supervisor {
  /**
   * The live thread. Throws AppError `relational_engine_unavailable` right after a death, `shutting_down` after
   * close.
   */
  get(): Thread
  listen(channel: string, listener: (payload: string) => void): Promise<() => Promise<void>>
  /** Ends this thread, whatever it is doing: the next call gets a fresh one. */
  replace(stuck: Thread): Promise<void>
  /** Idempotent. */
  close(): Promise<void>
}

export function createSupervisor(data: PgliteThreadData, log: Logger): Supervisor {
  const channels = new Map<string, Set<(payload: string) => void>>()
  const deadline = () => Date.now() + data.transactionMsMax
  let thread: Thread | undefined
  let startedAt = Number.NEGATIVE_INFINITY
  let closing: Promise<void> | undefined

  function start(): Thread {
    const opened: Thread = openWorker<PgliteThread>(
      { entry: new URL('./pglite-thread.ts', import.meta.url), name: 'relational', data, callsMax },
      (cause) => {
        if (thread === opened) thread = undefined
        if (!closing) log.error({ reason: describeError(cause) }, 'relational.thread-died')
        return relationalUnavailable(cause)
      },
    )
    opened.on('notify', ({ channel, payload }: { channel: string; payload: string }) => {
      for (const listener of channels.get(channel) ?? []) listener(payload)
    })
    for (const channel of channels.keys()) opened.call.listen(channel, deadline()).catch(() => {})
    return opened
  }

  function get(): Thread {
    if (closing) throw new AppError('shutting_down', 'The relational engine is closed.')
    if (thread) return thread
    if (performance.now() - startedAt < restartMs) throw relationalUnavailable()
    startedAt = performance.now()
    thread = start()
    return thread
  }

  return {
    get,
    async listen(channel, listener) {
      const listeners = channels.get(channel) ?? new Set()
      channels.set(channel, listeners.add(listener))
      const leave = () => {
        listeners.delete(listener)
        return listeners.size === 0 && channels.delete(channel)
      }
      try {
        await get().call.listen(channel, deadline())
      } catch (error) {
        leave()
        throw error
      }
      return async () => {
        if (leave() && !closing) await get().call.unlisten(channel, deadline())
      }
    },
    async replace(stuck) {
      if (thread === stuck) thread = undefined
      await stuck.terminate()
    },
    close() {
      closing ??= thread ? stop(thread, log) : Promise.resolve()
      return closing
    },
  }
}

async function stop(thread: Thread, log: Logger): Promise<void> {
  const closed = thread.call.close(Date.now() + closeTimeoutMs)
  await withTimeout(closed, closeTimeoutMs, () => relationalUnavailable()).catch((error) => {
    log.warn({ reason: describeError(error) }, 'relational.close-failed')
  })
  await thread.terminate()
}
