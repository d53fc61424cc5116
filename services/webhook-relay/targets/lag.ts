/** Ends of the log and the courier's commits in, how many records wait for each target out; asked when needed. */

import type { EventLog } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import type { Publisher } from '#runtime/messages.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
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
  read(): Promise<LagReading>
}

export function createLag(parts: {
  eventLog: Pick<EventLog, 'offsets' | 'groupState'>
  publisher: Pick<Publisher, 'placeOf'>
  assignments: Pick<Assignments, 'known'>
}): Lag {
  const group = webhooksDeliveries.readers.find((reader) => 'group' in reader)?.group ?? ''
  let kept = { atMs: Number.NEGATIVE_INFINITY, byPartition: new Map<number, number>(), fresh: false }
  let asking: Promise<void> | undefined

  async function ask(): Promise<void> {
    const { physicalName } = parts.publisher.placeOf(webhooksDeliveries as never)
    try {
      const answer = Promise.all([
        parts.eventLog.offsets(physicalName),
        parts.eventLog.groupState(group, physicalName),
      ])
      const [ranges, { committed }] = await withTimeout(answer, answerTimeoutMs, () => new Error('no answer'))
      const positions = new Map(committed.map(({ partition, offset }) => [partition, offset]))
      const byPartition = new Map(
        ranges.map(({ partition, start, end }) => [
          partition,
          Math.max(0, end - (positions.get(partition) ?? start)),
        ]),
      )
      kept = { atMs: Date.now(), byPartition, fresh: true }
    } catch {
      kept = { ...kept, atMs: Date.now(), fresh: false }
    } finally {
      asking = undefined
    }
  }
  return {
    async read() {
      if (Date.now() - kept.atMs > keptForMs) {
        asking ??= ask()
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
