/** Dead letters of every topic, as records: what the workers gave up on. */

import { Type } from 'typebox'
import { replayDeadLetter } from '#runtime/dead-letter-replay.ts'
import { type ListedDeadLetter, listDeadLetters } from '#runtime/dead-letters.ts'
import { type ShownRecord, showRecord } from '#runtime/show-record.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { deadLetterOperations, deadLetterParts, type Replay } from './dead-letters.ts'
import { findTopic } from './find-topic.ts'
import { openDeliveryReplay } from './webhooks/delivery-letters.ts'

export type RecordLetter = Omit<ListedDeadLetter, 'parkedAt'> & { parkedAt: string }

export const recordLetters = deadLetterOperations({
  name: 'dead-letters',
  filter: Type.Object({
    topic: Type.Optional(Type.String()),
    /** A record's key, or the name of one dead letter. */
    key: Type.Optional(Type.String()),
  }),
  async list(parts, filter): Promise<RecordLetter[]> {
    const letters = await listDeadLetters(parts, filter)
    return letters.map(({ parkedAt, ...letter }) => ({ ...letter, parkedAt: parkedAt.toISOString() }))
  },
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
