/** How many records wait for each target: asked of the log when somebody wants to know, and remembered for a moment. */

import type { EventLog } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import type { TopicPlace } from '#runtime/messages.ts'
import { readWaiting } from '../../targets/target-status.ts'
import type { Assignments } from './assignments.ts'

const keptForMs = 2_000
const answerTimeoutMs = 1_000

export interface LagReading {
  /** False when the log did not answer: then what it said before, or nothing, is told. */
  fresh: boolean
  /** Records accepted and not yet delivered or parked; null when it is not known. */
  of(target: string): number | null
}

export interface Lag {
  read(targets: Iterable<string>): Promise<LagReading>
}

export function createLag(parts: {
  eventLog: EventLog
  places: ReadonlyMap<string, TopicPlace>
  assignments: Pick<Assignments, 'known'>
}): Lag {
  let kept = { atMs: Number.NEGATIVE_INFINITY, byPartition: new Map<number, number>(), fresh: false }
  let asking: Promise<void> | undefined

  async function ask(targets: Iterable<string>): Promise<void> {
    const partitions = [...targets].flatMap((target) => parts.assignments.known(target) ?? [])
    try {
      const answer = readWaiting(parts, new Set(partitions))
      const { waiting } = await withTimeout(answer, answerTimeoutMs, () => new Error('no answer'))
      const byPartition = new Map([...waiting].map(([partition, { lag }]) => [partition, lag]))
      kept = { atMs: Date.now(), byPartition, fresh: true }
    } catch {
      kept = { ...kept, atMs: Date.now(), fresh: false }
    } finally {
      asking = undefined
    }
  }
  return {
    async read(targets) {
      if (Date.now() - kept.atMs > keptForMs) {
        asking ??= ask(targets)
        await asking
      }
      const { byPartition, fresh } = kept
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
