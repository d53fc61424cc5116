/**
 * Closes resources in reverse order, also after a half-failed start, and within a time limit.
 *
 * AsyncDisposableStack of the language reports all faults as one nested error without the parts' names, and a second
 * call does not wait for the first.
 */

import { withTimeout } from './backoff.ts'
import { deadlines } from './deadlines.ts'
import { describeError } from './errors.ts'

export interface Closeable {
  close(): Promise<void>
}

export interface Scope extends Closeable {
  /** Remembers how to close a resource that was just opened, and hands it on. */
  add<T extends Closeable>(name: string, resource: T): T
}

/**
 * A scope closes its resources, last first. Every close is tried; a fault goes to `onError` and is not thrown.
 */
export function createScope(onError: (name: string, error: unknown) => void = () => {}): Scope {
  const opened: { name: string; resource: Closeable }[] = []
  let closing: Promise<void> | undefined
  async function closeAll(): Promise<void> {
    for (let entry = opened.pop(); entry; entry = opened.pop()) {
      try {
        await entry.resource.close()
      } catch (error) {
        onError(entry.name, error)
      }
    }
  }
  return {
    add(name, resource) {
      opened.push({ name, resource })
      return resource
    },
    close() {
      closing ??= closeAll()
      return closing
    },
  }
}

/** For all of it: requests in flight, then workers, then engines with the time that is left. */
const { allMs, enginesMs, workersMs } = deadlines.stop

export type Stop = ReturnType<typeof createStop>

/**
 * Time limits for closing, so that a stop takes ten seconds at most, and the drain of a worker that has one. `ownDrainMs` is of
 * a worker that has the process to itself, and comes on top.
 */
export function createStop(ownDrainMs?: number) {
  let endsAt: number | undefined
  /** The first who asks begins the stop. */
  function leftMs(): number {
    endsAt ??= performance.now() + allMs + (ownDrainMs ?? 0)
    return endsAt - performance.now()
  }
  const forWorkersMs = () => Math.max(workersMs, leftMs() - enginesMs)
  const boundBy = (resource: Closeable, limitMs: () => number): Closeable => ({
    close() {
      const limit = Math.max(0, Math.min(limitMs(), leftMs()))
      const late = () => new Error(`did not close within ${Math.round(limit)} ms`)
      return withTimeout(resource.close(), limit, late)
    },
  })
  return {
    /** Limits a close by its own time and by the rest of the stop. Nothing acknowledged is lost where one times out. */
    bound: (resource: Closeable, ms: number = allMs) => boundBy(resource, () => ms),
    /** As `bound`, of the workers: with all the time that engines do not need. */
    boundWorkers: (workers: Closeable) => boundBy(workers, forWorkersMs),
    /** How long a worker may let its work go on, when its close begins; the rest is to write down what it was. */
    drainMs: (): number => ownDrainMs ?? forWorkersMs() - deadlines.stop.lastWritesMs,
  }
}

/** What `open` opens, closed as one, last first. Where a part does not open, those before it are closed again. */
export async function openTogether<T extends object>(
  log: { error(fields: object, message: string): void },
  open: (scope: Scope) => Promise<T>,
): Promise<T & Closeable> {
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'service.close-failed'),
  )
  try {
    return { ...(await open(scope)), close: () => scope.close() }
  } catch (error) {
    await scope.close()
    throw error
  }
}
