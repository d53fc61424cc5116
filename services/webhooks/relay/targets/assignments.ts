/** Names of targets in, their partitions out: remembered, so that a target that is known needs no database. */

import type { Logger } from 'pino'
import { sleep, withTimeout } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import { type AssignmentParts, assignPartition, readAssignments } from '../../targets/assignment.ts'
import type { WatchedTargets } from '../../targets/targets-file.ts'

/** Rows are compared this often: a target that was forgotten may have lost its partition to another. */
const lookEveryMs = 5_000
const assignTimeoutMs = 1_500
const firstLookMsMax = 10_000

export interface Assignments extends Closeable {
  /** The partition that the target owns; taken now when it has none. Throws AppError of an engine that is away. */
  partitionOf(target: string): Promise<number>
  /** Null while it is not known. */
  known(target: string): number | null
}

/**
 * Gives every target of the file a partition, also those that come later, before anything is fired at them. Resolves
 * when those of now have theirs, or after some seconds.
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
  async function look(): Promise<void> {
    const rows = await readAssignments(parts.relational)
    for (const [target, partition] of known) {
      if (rows.get(target) !== partition) known.delete(target)
    }
    for (const target of targets.current().targets.keys()) {
      if (!known.has(target) && !stop.signal.aborted) await ask(target)
    }
  }
  const watching = { what: 'webhook assignments', everyMs: lookEveryMs, signal: stop.signal, log }
  const first = Promise.withResolvers<void>()
  const looking = repeatUntil(watching, () => look().finally(first.resolve))
  targets.onChange(() => {
    // What fails here is tried again at the next look, and when it is fired at.
    if (!stop.signal.aborted) look().catch(() => {})
  })
  // Who fires right after the start finds partitions; with the database away it starts without them.
  await Promise.race([first.promise, sleep(firstLookMsMax, stop.signal)])
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
      await looking
    },
  }
}
