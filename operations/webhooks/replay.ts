/** Dead letters of webhooks.deliveries in, the same deliveries behind all that their targets have by now out. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import {
  collectDeadLetters,
  type DeadLetterDependencies,
  type DeadLetterName,
  removeDeadLetter,
  replayedFromHeader,
  type ShownDeadLetter,
} from '#runtime/dead-letters.ts'
import type { Position } from '#runtime/messages.ts'
import { readAssignments } from '#services/webhooks/targets/assignment.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { deliveryOfLetter } from './dead-letters.ts'

export interface ReplayParts extends DeadLetterDependencies {
  relational: SqlExecutor
}

export type Replayed = { key: string } & (
  | ({ status: 'replayed' } & Position)
  | { status: 'refused'; code: string; message: string }
)

const topic = webhooksDeliveries
/** Letters that are held in memory at once; a value has 256 KiB at most. */
const heldMax = 200

/** Replays one. Throws AppError `dead_letter_not_found`, `conflict` or `log_unavailable`. */
export async function replayDelivery(parts: ReplayParts, { key }: DeadLetterName): Promise<Position> {
  const [letter] = await readLetters(parts, [key])
  if (!letter) throw notFound(key)
  return replay(parts, letter, await readAssignments(parts.relational))
}

/**
 * Replays dead letters one after the other, in the order of `keys`; one that is refused does not stop the others. Each
 * keeps its sequence, key and webhook id, is marked as a replay, and goes to the partition that its target owns now.
 * Throws AppError `log_unavailable`; what was replayed until then is gone from the dead letters.
 */
export async function replayDeliveries(parts: ReplayParts, keys: readonly string[]): Promise<Replayed[]> {
  const results: Replayed[] = []
  const assignments = await readAssignments(parts.relational)
  for (let from = 0; from < keys.length; from += heldMax) {
    const some = keys.slice(from, from + heldMax)
    const letters = new Map((await readLetters(parts, some)).map((letter) => [letter.key, letter]))
    for (const key of some) results.push(await tryReplay(parts, key, letters.get(key), assignments))
  }
  return results
}

async function tryReplay(
  parts: ReplayParts,
  key: string,
  letter: ShownDeadLetter | undefined,
  assignments: ReadonlyMap<string, number>,
): Promise<Replayed> {
  try {
    if (!letter) throw notFound(key)
    return { key, status: 'replayed', ...(await replay(parts, letter, assignments)) }
  } catch (error) {
    if (!(error instanceof AppError) || error.statusCode >= 500) throw error
    return { key, status: 'refused', code: error.code, message: error.message }
  }
}

async function replay(
  parts: ReplayParts,
  letter: ShownDeadLetter,
  assignments: ReadonlyMap<string, number>,
): Promise<Position> {
  const { delivery, fault } = await deliveryOfLetter(parts.codec, letter)
  if (!delivery) throw new AppError('conflict', `It cannot be replayed: ${fault}.`)
  const partition = assignments.get(delivery.target)
  if (partition === undefined) {
    throw new AppError(
      'conflict',
      `${delivery.target} owns no partition any more: add it to the targets file again, or discard the dead letter.`,
    )
  }
  const value = { ...delivery, sequence: delivery.sequence ?? letter.offset, replay: true }
  // Its request id goes along; the event id is a new one, else it would be dropped as a repeat.
  const headers = { ...letter.headers, [replayedFromHeader]: `${letter.topic}/${letter.key}` }
  const [position] = await parts.publisher.publish(
    webhooksDeliveries,
    [{ key: delivery.target, value, headers }],
    { partition },
  )
  await removeDeadLetter(parts, topic, letter)
  return position!
}

function readLetters(parts: ReplayParts, keys: readonly string[]): Promise<ShownDeadLetter[]> {
  const wanted = new Set(keys)
  return collectDeadLetters(parts, topic.name, async (letter) => (wanted.has(letter.key) ? letter : null))
}

function notFound(key: string): AppError {
  return new AppError('dead_letter_not_found', `There is no dead letter ${key.slice(0, 200)} of webhooks.`)
}
