/** Growing a topic in place: every group has a position in every partition, however late the brokers show the new ones. */

import { expect, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { growTopic } from '#operations/grow.ts'
import { ensureTopics } from '#runtime/publish/topics.ts'
import { fleetEvents } from '#topics/catalog.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { openTestRelational, silentLog } from '../../support/relational.ts'

test('new partitions that brokers show a moment later have positions as well', async () => {
  const relational = await openTestRelational()
  const memory = createMemoryLog()
  const locations = await ensureTopics({ eventLog: memory, relational, log: silentLog })
  let hidden = 0
  const eventLog: EventLog = {
    ...memory,
    async addPartitions(name, total) {
      await memory.addPartitions(name, total)
      hidden = 3
    },
    async offsets(name) {
      const ranges = await memory.offsets(name)
      return hidden-- > 0 ? ranges.slice(0, fleetEvents.partitions + hidden) : ranges
    },
  }
  const { signal } = new AbortController()
  await growTopic(
    { env: {}, engines: { eventLog, relational }, locations, progress() {}, signal },
    fleetEvents,
    24,
  )
  const { committed } = await memory.groupState('webhook-relay', fleetEvents.name)
  expect(committed.map(({ partition }) => partition).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 24 }, (_, n) => n),
  )
})
