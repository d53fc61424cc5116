/** A log with hub.records and fleet.events alone, for what copies them: notes that come, change and go. */

import { onTestFinished } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { createCodec } from '#runtime/publish/codec.ts'
import { createPublisher } from '#runtime/publish/publisher.ts'
import { topicSpecOf } from '#runtime/publish/topics.ts'
import type { HubRecord } from '#schemas/types.ts'
import { fleetEvents, hubRecords } from '#topics/catalog.ts'
import { createMemoryRegistry } from './memory-registry.ts'
import { silentLog } from './relational.ts'
import { temporaryFolder } from './temporary.ts'

export function noteState(id: number, version = 1, text = `text ${version}`): HubRecord {
  return {
    kind: 'note',
    id,
    version,
    author: 'WHALE',
    title: `note ${id}`,
    text,
    priority: 'normal',
    status: 'active',
    thread_id: null,
    parent_id: null,
    created_at: 1_700_000_000_000,
    updated_at: 1_700_000_000_000 + version,
  }
}

export async function openSinkWorld() {
  const eventLog = await openEmbeddedLog({ directory: temporaryFolder() })
  onTestFinished(() => eventLog.close())
  const registry = createMemoryRegistry()
  const codec = createCodec(registry)
  const locations = new Map([hubRecords, fleetEvents].map(({ name }) => [name, placeOf(name, 1, 12)]))
  const publisher = createPublisher({ eventLog, codec, locations, producerName: 'test' })
  for (const topic of [hubRecords, fleetEvents])
    await eventLog.createTopic(topicSpecOf(topic, placeOf(topic.name, 1, 12)))
  return {
    eventLog,
    registry,
    platform: { engines: { eventLog }, codec, publisher, log: silentLog },
    async note(id: number, version = 1, text?: string) {
      await publisher.publish(hubRecords, [
        { key: { kind: 'note', id }, value: noteState(id, version, text) },
      ])
    },
    async remove(id: number) {
      await publisher.publish(hubRecords, [{ key: { kind: 'note', id }, value: null }])
    },
    /** As `topics grow` leaves it: another topic, which is empty at first. */
    async grow() {
      const place = placeOf(`${hubRecords.name}.e2`, 2, 24)
      await eventLog.createTopic(topicSpecOf(hubRecords, place))
      locations.set(hubRecords.name, place)
    },
  }
}

function placeOf(physicalName: string, epoch: number, partitions: number) {
  return { physicalName, epoch, partitions }
}
