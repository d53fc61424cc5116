/** How many records wait for each target, for health: read from the log on request and kept for two seconds. */

import type { Groups, Log } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { TopicLocation } from '#runtime/publish/messages.ts'
import { readWaiting } from '../../targets/target-status.ts'
import type { Assignments } from './assignments.ts'

const keptForMs = 2_000
const answerTimeoutMs = deadlines.request.lagMs

export interface LagReading {
  /** False when the log did not answer: then `of` gives the previous numbers, or null. */
  fresh: boolean
  /** Records accepted and not yet delivered or parked; null when it is not known. */
  of(target: string): number | null
}

export interface Lag {
  read(targets: Iterable<string>): Promise<LagReading>
}

export function createLag(parts: {
  eventLog: Log & Groups
  locations: ReadonlyMap<string, TopicLocation>
  assignments: Pick<Assignments, 'known'>
}): Lag {
  let last = { atMs: Number.NEGATIVE_INFINITY, byPartition: new Map<number, number>(), fresh: false }
  let asking: Promise<void> | undefined

  async function ask(targets: Iterable<string>): Promise<void> {
    const partitions = [...targets].flatMap((target) => parts.assignments.known(target) ?? [])
    try {
      const answer = readWaiting(parts, new Set(partitions))
      const { waiting } = await withTimeout(answer, answerTimeoutMs, () => new Error('no answer'))
      const byPartition = new Map([...waiting].map(([partition, { lag }]) => [partition, lag]))
      last = { atMs: performance.now(), byPartition, fresh: true }
    } catch {
      last = { ...last, atMs: performance.now(), fresh: false }
    } finally {
      asking = undefined
    }
  }
  return {
    async read(targets) {
      if (performance.now() - last.atMs > keptForMs) {
        asking ??= ask(targets)
        await asking
      }
      const { byPartition, fresh } = last
      return {
        fresh,
        of(target) {
          const partition = parts.assignments.known(target)
          return partition === null ? null : (byPartition.get(partition) ?? null)
        },
      }
    },
  }
}
