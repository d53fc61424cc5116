/** The partitions that targets own, remembered by the relay, so that firing at a known target needs no database. */

import type { Logger } from 'pino'
import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import { type AssignmentParts, assignPartition, readAssignments } from '../../targets/assignment.ts'
import type { WatchedTargets } from '../../targets/targets-file.ts'

/** How often the rows are read again: a forgotten target may have lost its partition to another one. */
const refreshEveryMs = 5_000
const assignTimeoutMs = deadlines.request.assignMs
const firstRefreshMsMax = 10_000

export interface Assignments extends Closeable {
  /** The partition that the target owns; assigned now when it has none. Throws AppError of an engine that is away. */
  partitionOf(target: string): Promise<number>
  /** Null while it is not known. */
  known(target: string): number | null
}

/**
 * Gives every target of the file a partition, also those that are added later, before anything is fired at them.
 * Resolves when the present targets have theirs, or after ten seconds.
 */
export async function openAssignments(
  parts: AssignmentParts & { targets: Pick<WatchedTargets, 'current' | 'onChange'>; log: Logger },
): Promise<Assignments> {
  const { targets, log } = parts
  const known = new Map<string, number>()
  const asking = new Map<string, Promise<number>>()
  const stop = new AbortController()

  function ask(target: string): Promise<number> {
    let call = asking.get(target)
    if (!call) {
      call = assignPartition(parts, target)
        .then((partition) => {
          known.set(target, partition)
          return partition
        })
        .finally(() => asking.delete(target))
      asking.set(target, call)
    }
    return call
  }
  async function refresh(): Promise<void> {
    if (known.size > 0) {
      const rows = await readAssignments(parts.relational)
      for (const [target, partition] of known) {
        if (rows.get(target) !== partition) known.delete(target)
      }
    }
    for (const target of targets.current().targets.keys()) {
      if (!known.has(target) && !stop.signal.aborted) await ask(target)
    }
  }
  const watching = { what: 'webhook assignments', everyMs: refreshEveryMs, signal: stop.signal, log }
  const first = Promise.withResolvers<void>()
  const refreshing = repeatUntil(watching, () => refresh().finally(first.resolve))
  targets.onChange(() => {
    // What fails here is tried again at the next refresh, and when an event is fired.
    if (!stop.signal.aborted) refresh().catch(() => {})
  })
  // Events that are fired right after the start find partitions; without a database the relay starts all the same.
  await Promise.race([first.promise, sleep(firstRefreshMsMax, stop.signal)])
  return {
    known: (target) => known.get(target) ?? null,
    async partitionOf(target) {
      const partition = known.get(target)
      if (partition !== undefined) return partition
      return withTimeout(
        ask(target),
        assignTimeoutMs,
        () => new AppError('relational_engine_unavailable', 'The target has no partition yet.'),
      )
    },
    async close() {
      stop.abort()
      await refreshing
    },
  }
}
