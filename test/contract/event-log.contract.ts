/** Promises of every driver of the event log; a driver runs the whole suite through its harness. */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe } from 'vitest'
import { describeAppending } from './event-log/appending.ts'
import { describeCompaction } from './event-log/compaction.ts'
import { describeFencedWriters } from './event-log/fenced-writers.ts'
import { describeGroups } from './event-log/groups.ts'
import { describePositions } from './event-log/positions.ts'
import { describeRebalance } from './event-log/rebalance.ts'
import { describeTails } from './event-log/tails.ts'
import { describeTopics } from './event-log/topics.ts'
import { createWorld, type EventLogHarness } from './event-log/world.ts'

export type { EventLogHarness }

/** Runs the suite. `start` is called once and makes the log reachable; what it returns opens clients onto it. */
export function describeEventLog(driverName: string, start: () => Promise<EventLogHarness>): void {
  describe(`event log: ${driverName}`, () => {
    let harness: EventLogHarness | undefined
    beforeAll(async () => {
      harness = await start()
    }, 120_000)
    afterAll(async () => {
      await harness?.close?.()
    })
    const world = createWorld(`c${randomBytes(4).toString('hex')}`, () => harness as EventLogHarness)
    describeTopics(world)
    describeAppending(world)
    describeFencedWriters(world)
    describeGroups(world)
    describeRebalance(world)
    describePositions(world)
    describeTails(world)
    describeCompaction(world)
  })
}
