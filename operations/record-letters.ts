/** Dead letters of every topic, as records: what the workers gave up on. */

import { Type } from 'typebox'
import { replayDeadLetter } from '#runtime/consume/dead-letter-replay.ts'
import {
  type DeadLetterParts,
  type ListedDeadLetter,
  listDeadLetters,
} from '#runtime/consume/dead-letters.ts'
import { findSuperseded } from '#runtime/consume/find-superseded.ts'
import { type ShownRecord, showRecord } from '#runtime/follow/show-record.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { deadLetterOperations, deadLetterParts, type Replay } from './dead-letters.ts'
import { findTopic } from './find-topic.ts'
import { defineOperation } from './operation.ts'
import { openDeliveryReplay } from './webhooks/delivery-letters.ts'

export type RecordLetter = Omit<ListedDeadLetter, 'parkedAt'> & { parkedAt: string }

/** Dead letters that are named one by one at once. */
export const namesMax = 1_000

const recordFilter = Type.Object({
  topic: Type.Optional(Type.String()),
  /** A record's key, or the name of one dead letter. */
  key: Type.Optional(Type.String()),
  /** Of the reader group that gave them up. */
  group: Type.Optional(Type.String()),
  /** Exactly these. */
  names: Type.Optional(
    Type.Array(Type.Object({ topic: Type.String(), key: Type.String() }), { maxItems: namesMax }),
  ),
})

export const recordLetters = deadLetterOperations({
  name: 'dead-letters',
  filter: recordFilter,
  targetOf({ topic, key, names = [] }) {
    const [only, ...more] = names
    if (only) return more.length === 0 ? `${only.topic}/${only.key}` : only.topic
    return [topic ?? 'all topics', ...(key === undefined ? [] : [key])].join('/')
  },
  list: listRecordLetters,
  originOf: (letter) => letter,
  nameOf: ({ topic, key }) => ({ topic, key }),
  shownMax: Number.POSITIVE_INFINITY,
  async show({ codec }, { topic, partition, offset, headers, value, recordKey }) {
    const record = { partition, offset, headers, value, timestamp: 0, key: Buffer.from(recordKey ?? '') }
    const { value: shown, fault } = await showRecord(codec, findTopic(topic), record)
    const decoded: Pick<ShownRecord, 'value' | 'fault'> = { value: shown }
    return fault === undefined ? decoded : { ...decoded, fault }
  },
  async openReplay(platform) {
    let deliveries: Promise<Replay> | undefined
    return async (letter) => {
      if (letter.topic !== webhooksDeliveries.name) return replayDeadLetter(deadLetterParts(platform), letter)
      // The partition of a delivery is its target's, not its key's.
      deliveries ??= openDeliveryReplay(platform)
      return (await deliveries)(letter)
    }
  },
})

/** Which of those that the filter means a replay would refuse, as their keys have later records. */
export const supersededOperation = defineOperation({
  name: 'dead-letters superseded',
  needs: [],
  args: recordFilter,
  async run({ platform }, filter): Promise<{ superseded: string[]; unknown: number }> {
    const parts = deadLetterParts(platform)
    const { superseded, unknown } = await findSuperseded(parts, await listRecordLetters(parts, filter))
    return { superseded: [...superseded], unknown }
  },
})

interface RecordFilter {
  topic?: string
  key?: string
  group?: string
  names?: { topic: string; key: string }[]
}

async function listRecordLetters(
  parts: DeadLetterParts,
  { group, names, ...filter }: RecordFilter,
): Promise<RecordLetter[]> {
  const listed = names ? await listNamed(parts, names) : await listDeadLetters(parts, filter)
  return listed
    .filter((letter) => group === undefined || letter.group === group)
    .map(({ parkedAt, ...letter }) => ({ ...letter, parkedAt: parkedAt.toISOString() }))
}

async function listNamed(
  parts: DeadLetterParts,
  names: readonly { topic: string; key: string }[],
): Promise<ListedDeadLetter[]> {
  const found: ListedDeadLetter[] = []
  for (const [topic, own] of Map.groupBy(names, (name) => name.topic)) {
    const keys = new Set(own.map(({ key }) => key))
    found.push(...(await listDeadLetters(parts, { topic })).filter(({ key }) => keys.has(key)))
  }
  return found.sort((a, b) => a.parkedAt.getTime() - b.parkedAt.getTime())
}
