/** Says which dead letters a replay would refuse, because their keys have later records, without replaying any. */

import { partitionOf } from '#lib/murmur2.ts'
import { readRange } from '../follow/read-range.ts'
import { headerNames } from '../publish/messages.ts'
import { type DeadLetterParts, type ListedDeadLetter, parkedTopic } from './dead-letters.ts'

/** Records that are looked at for each partition; of more only the newest. */
const lookedAtMax = 100_000
const rangeTimeoutMs = 20_000

interface Supersession {
  /** Their names, as `nameOfLetter` gives them. */
  superseded: ReadonlySet<string>
  /** Letters of which it is not known: too much was written since, and none of the newest records is of their keys. */
  unknown: number
}

type Letter = Pick<
  ListedDeadLetter,
  'topic' | 'key' | 'partition' | 'offset' | 'epoch' | 'recordKey' | 'headers'
>

export function nameOfLetter({ topic, key }: Pick<Letter, 'topic' | 'key'>): string {
  return `${topic} ${key}`
}

/** Throws AppError `log_unavailable`. Letters of topics that are not compacted are never superseded. */
export async function findSuperseded(
  parts: DeadLetterParts,
  letters: readonly Letter[],
): Promise<Supersession> {
  const superseded = new Set<string>()
  let unknown = 0
  for (const [topicName, own] of Map.groupBy(letters, ({ topic }) => topic)) {
    const topic = parkedTopic(parts, topicName)
    if (topic.cleanup !== 'compact') continue
    const { physicalName, epoch, partitions } = parts.publisher.locationOf(topic)
    const ranges = new Map(
      (await parts.eventLog.offsets(physicalName)).map((one) => [one.partition, one] as const),
    )
    const places = own.map((letter) => placeOf(letter, partitions, epoch))
    for (const [partition, waiting] of Map.groupBy(places, (one) => one.partition)) {
      const range = ranges.get(partition)
      if (!range) continue
      const wanted = Math.max(range.start, Math.min(...waiting.map(({ after }) => after)))
      const from = Math.max(wanted, range.end - lookedAtMax)
      const byKey = Map.groupBy(waiting, ({ recordKey }) => recordKey)
      const read = { topic: physicalName, partition, from, to: range.end, timeoutMs: rangeTimeoutMs }
      await readRange(parts.eventLog, read, ({ key, offset, headers }) => {
        for (const one of byKey.get(key?.toString('utf8') ?? null) ?? []) {
          const isCopy = one.eventId !== undefined && one.eventId === headers[headerNames.eventId]
          if (offset >= one.after && !isCopy) superseded.add(one.name)
        }
      })
      unknown += waiting.filter(
        ({ name, after }) => !superseded.has(name) && Math.max(after, range.start) < from,
      ).length
    }
  }
  return { superseded, unknown }
}

/** Where its replay would go, and behind which offset a record of its key would be a later one. */
function placeOf(letter: Letter, partitions: number, epoch: number) {
  const { recordKey, headers } = letter
  const partition = recordKey === null ? letter.partition : partitionOf(Buffer.from(recordKey), partitions)
  const isComparable = letter.epoch === epoch && letter.partition === partition
  const after = isComparable ? letter.offset + 1 : 0
  return { name: nameOfLetter(letter), recordKey, eventId: headers[headerNames.eventId], partition, after }
}
