/** Writes records that a group gives up on into the dead letters of their topic, as they were, with the reason. */

import type { Logger } from 'pino'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'
import type { Topic } from '#topics/topic.ts'
import type { Publisher } from '../publish/messages.ts'
import { retryUntilDone } from '../repeat.ts'

export interface Parked {
  record: StoredRecord
  reason: string
  /** Tries that failed. */
  attempts: number
}

/** Why a record without a message is parked. */
export function undecodable(fault = ''): string {
  return `it cannot be decoded: ${fault}`
}

interface Parking {
  group: string
  topic: Topic
  publisher: Publisher
  log: Logger
  keptOf?: ((record: StoredRecord) => StoredRecord | Promise<StoredRecord>) | undefined
}

/** Header of a dead letter: the physical topic that its position belongs to. */
export const originHeader = 'origin-topic'
/** Header of a dead letter whose record was too large to be kept in it: the value is not there. */
export const valueLostHeader = 'value-lost'
const reasonCharactersMax = 2_000

/** Resolves true when the dead letters are durable, false when `signal` aborted first. */
export async function park(parked: Parked[], parking: Parking, signal: AbortSignal): Promise<boolean> {
  for (const { record, reason, attempts } of parked) {
    parking.log.error({ ...positionOf(record), reason, attempts }, 'record parked')
  }
  if (!parking.topic.deadLetters) {
    parking.log.error(
      { topic: parking.topic.name },
      'the topic has no dead letters: parked records are skipped',
    )
    return !signal.aborted
  }
  for (const entry of parked) {
    if (
      !(await retryUntilDone('publishing a dead letter', () => publish(entry, parking), signal, parking.log))
    )
      return false
  }
  return true
}

async function publish(parked: Parked, parking: Parking): Promise<void> {
  const entry = parking.keptOf ? { ...parked, record: await parking.keptOf(parked.record) } : parked
  try {
    await publishLetter(entry, entry.reason, false, parking)
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'payload_too_large') throw error
    const { partition, offset } = entry.record
    const where = `its value is too large to be kept here; it remains at ${partition}/${offset}`
    await publishLetter(entry, `${entry.reason} (${where})`, true, parking)
  }
}

async function publishLetter(
  { record, attempts }: Parked,
  reason: string,
  valueLost: boolean,
  { group, topic, publisher }: Parking,
): Promise<void> {
  const { epoch, physicalName } = publisher.locationOf(topic)
  await publisher.publish(deadLettersOf(topic), [
    {
      key: { group, epoch, ...positionOf(record) },
      value: {
        topic: topic.name,
        partition: record.partition,
        offset: record.offset,
        consumer_group: group,
        key: record.key,
        value: valueLost ? null : record.value,
        headers: record.headers,
        reason: reason.slice(0, reasonCharactersMax).toWellFormed(),
        attempts,
        parked_at: Date.now(),
      },
      headers: {
        [originHeader]: physicalName,
        ...(valueLost ? { [valueLostHeader]: 'true' } : {}),
      },
    },
  ])
}

function positionOf(record: StoredRecord): { partition: number; offset: number } {
  return { partition: record.partition, offset: record.offset }
}
