/** Dead letters of webhooks.deliveries in, what an operator wants to know of them out, each target's in its order. */

import { type Static, Type } from 'typebox'
import { describeError } from '#lib/errors.ts'
import {
  collectDeadLetters,
  type DeadLetterDependencies,
  type ShownDeadLetter,
} from '#runtime/dead-letters.ts'
import type { Codec } from '#runtime/messages.ts'
import type { WebhookDelivery } from '#schemas/types.ts'
import { deadLettersOf, webhooksDeliveries } from '#topics/catalog.ts'

const topic = webhooksDeliveries
const discardedAtOnce = 500

export interface ParkedDelivery {
  /** `<group>/<partition>/<offset>`: the name of the dead letter. */
  key: string
  /** The same in its parts. */
  origin: { group: string; partition: number; offset: number }
  target: string
  /** What X-Sequence said; null when the record cannot be read. */
  sequence: number | null
  event: string | null
  agent: string | null
  task_id: string | null
  idempotency_key: string | null
  attempts: number
  reason: string
  replay: boolean
  parked_at: string
  received_at: string | null
}

export const parkedFilter = Type.Object({
  target: Type.Optional(Type.String()),
  sequence: Type.Optional(Type.Integer({ minimum: 0 })),
})
export type ParkedFilter = Static<typeof parkedFilter>

/** By target, then by sequence. */
export async function listParkedDeliveries(
  dependencies: DeadLetterDependencies,
  filter: ParkedFilter = {},
): Promise<ParkedDelivery[]> {
  const found = await collectParked(dependencies, filter, ({ parked }) => parked)
  return inOrder(found)
}

/** The same with their bodies, as the receiver would have got them; at most `max` of them, the first ones. */
export async function showParkedDeliveries(
  dependencies: DeadLetterDependencies,
  filter: ParkedFilter,
  max: number,
): Promise<(ParkedDelivery & { body: unknown })[]> {
  const first = (await listParkedDeliveries(dependencies, filter)).slice(0, max)
  const wanted = new Set(first.map(({ key }) => key))
  const shown = await collectParked(dependencies, filter, ({ parked, delivery }) =>
    wanted.has(parked.key) ? { ...parked, body: delivery && bodyOf(delivery) } : null,
  )
  return inOrder(shown)
}

/** Removes them for good, many at once. Throws AppError `log_unavailable`; some may be gone then. */
export async function discardParkedDeliveries(
  { publisher }: Pick<DeadLetterDependencies, 'publisher'>,
  letters: readonly ParkedDelivery[],
): Promise<void> {
  const parked = deadLettersOf(webhooksDeliveries)
  for (let from = 0; from < letters.length; from += discardedAtOnce) {
    const some = letters.slice(from, from + discardedAtOnce)
    await publisher.publish(
      parked,
      some.map(({ origin }) => ({ key: origin, value: null })),
    )
  }
}

/** The record that a dead letter holds; null, and why, when it cannot be read. */
export async function deliveryOfLetter(
  codec: Codec,
  letter: ShownDeadLetter,
): Promise<{ delivery: WebhookDelivery | null; fault: string | null }> {
  if (letter.value === null) return { delivery: null, fault: 'its value was too large to be kept' }
  const { partition, offset, headers, value } = letter
  const key = Buffer.from(letter.recordKey ?? '')
  try {
    const message = await codec.decode(topic, { partition, offset, headers, value, key, timestamp: 0 })
    return { delivery: message.value, fault: null }
  } catch (error) {
    return { delivery: null, fault: describeError(error) }
  }
}

interface Parked {
  parked: ParkedDelivery
  delivery: WebhookDelivery | null
}

function collectParked<T>(
  dependencies: DeadLetterDependencies,
  { target, sequence }: ParkedFilter,
  keep: (parked: Parked) => T | null,
): Promise<T[]> {
  return collectDeadLetters(dependencies, topic.name, async (letter) => {
    if (target !== undefined && letter.recordKey !== target) return null
    const { delivery } = await deliveryOfLetter(dependencies.codec, letter)
    const parked = parkedOf(letter, delivery)
    return sequence === undefined || parked.sequence === sequence ? keep({ parked, delivery }) : null
  })
}

function parkedOf(letter: ShownDeadLetter, delivery: WebhookDelivery | null): ParkedDelivery {
  return {
    key: letter.key,
    origin: { group: letter.group, partition: letter.partition, offset: letter.offset },
    target: delivery?.target ?? letter.recordKey ?? '',
    sequence: delivery && (delivery.sequence ?? letter.offset),
    event: delivery?.event ?? null,
    agent: delivery?.agent ?? null,
    task_id: delivery?.task_id ?? null,
    idempotency_key: delivery?.idempotency_key ?? null,
    attempts: letter.attempts,
    reason: letter.reason,
    replay: delivery?.replay ?? false,
    parked_at: letter.parkedAt.toISOString(),
    received_at: delivery && new Date(delivery.received_at).toISOString(),
  }
}

function inOrder<T extends ParkedDelivery>(letters: T[]): T[] {
  return letters.sort(
    (a, b) =>
      (a.target < b.target ? -1 : Number(a.target > b.target)) || (a.sequence ?? 0) - (b.sequence ?? 0),
  )
}

function bodyOf({ body }: WebhookDelivery): unknown {
  const text = body.toString()
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
