/** The present records of a topic of a running platform. */

import type { Platform } from '#runtime/start/platform.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'

export interface LoggedRecord<V> {
  key: string
  value: V | null
  headers: Record<string, string>
  partition: number
  offset: number
}

/** Every record that is readable now, decoded. */
export async function recordsOf<S extends SchemaName>(platform: Platform, topic: Topic<S>) {
  type Value = Awaited<ReturnType<typeof platform.codec.decode<S>>>['value']
  const found: (LoggedRecord<NonNullable<Value>> | Promise<LoggedRecord<NonNullable<Value>>>)[] = []
  const tail = await platform.engines.eventLog.tail({
    topic: platform.publisher.locationOf(topic).physicalName,
    from: 'beginning',
    records(_partition, records) {
      for (const record of records) {
        if (!record.hidden)
          found.push(platform.codec.decode(topic, record) as LoggedRecord<NonNullable<Value>>)
      }
    },
  })
  try {
    await tail.ready
    return await Promise.all(found)
  } finally {
    await tail.close()
  }
}
