/** `flotilla topics tail`: the newest records of a topic, decoded. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'
import { readRecords } from '#runtime/read-records.ts'
import { type ShownRecord, showRecord } from '#runtime/show-record.ts'
import { catalog, topicByName } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import { defineCommand } from './operation.ts'

export const lastMax = 10_000

interface TailArgs {
  topic: string
  last: number
  follow: boolean
  key?: string
}

/** The topic of this name. Throws AppError `not_found` that lists the names there are. */
export function findTopic(name: string): Topic {
  const topic = topicByName(name)
  if (topic) return topic
  const names = catalog.map((one) => one.name).join(', ')
  throw new AppError('not_found', `There is no topic named ${name}. There are: ${names}.`)
}

export const topicsTailCommand = defineCommand<TailArgs, { topic: string; records: ShownRecord[] }>({
  name: 'topics tail',
  needs: [],
  async run({ platform, output, signal }, { topic: name, last, follow, key }) {
    const topic = findTopic(name)
    const wanted = (record: StoredRecord) => key === undefined || record.key?.toString('utf8') === key
    const first: StoredRecord[] = []
    let live = false
    let telling: Promise<ShownRecord[]> = Promise.resolve([])
    const tell = (records: StoredRecord[]) => {
      telling = telling.then(async () => {
        const shown = await Promise.all(records.map((record) => showRecord(platform.codec, topic, record)))
        if (follow) for (const record of shown) output.item(record)
        return shown
      })
    }
    await readRecords({
      eventLog: platform.engines.eventLog,
      topic: platform.places.get(name)?.physicalName ?? name,
      // A key's records may lie anywhere in its partition.
      startOf: ({ start, end }) => (key === undefined ? Math.max(start, end - last) : start),
      follow,
      signal,
      records(records) {
        const chosen = records.filter(wanted)
        if (live) return tell(chosen)
        first.push(...chosen)
        if (first.length > lastMax * 2) keepNewest(first, last)
      },
      caughtUp() {
        live = true
        keepNewest(first, last)
        tell(first)
      },
    })
    const records = await telling
    return { topic: name, records: follow ? [] : records }
  },
})

/** By time over all partitions; those of one partition keep their order. */
function keepNewest(records: StoredRecord[], count: number): void {
  records.sort((a, b) => a.timestamp - b.timestamp || (a.partition === b.partition ? a.offset - b.offset : 0))
  records.splice(0, Math.max(0, records.length - count))
}
