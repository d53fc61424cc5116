/** Where the pages of this guide begin: a topic of two partitions on an embedded log, and what a service gets to work with. */

import { onTestFinished } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { createHarness, type Harness } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { temporaryFolder } from '#test/support/temporary.ts'

export interface World extends Harness {
  /** Resolves when the group's committed positions add up to so many records. */
  committed(records: number): Promise<void>
}

export async function openWorld(): Promise<World> {
  const log = await openEmbeddedLog({ directory: temporaryFolder() })
  onTestFinished(() => log.close())
  const harness = await createHarness(log, { partitions: 2 })
  return {
    ...harness,
    async committed(records) {
      const sum = async () => {
        const { committed } = await log.groupState('workers', harness.topic.name)
        return committed.reduce((all, { offset }) => all + offset, 0)
      }
      await eventually(`${records} records are committed`, async () => (await sum()) === records, 60_000)
    },
  }
}
