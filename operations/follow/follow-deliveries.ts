/** What became of webhook deliveries: each attempt that a courier reported of them. */

import { type Static, Type } from 'typebox'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import type { OperationContext } from '../operation.ts'
import { orNull } from '../shapes.ts'
import { attempt, visitAttempts } from '../webhooks/attempts.ts'
import { decodedValue, type Found } from './follow-records.ts'
import type { DeliveryName, Subject } from './subject.ts'

/** Followed at most. */
const deliveriesMax = 50
/** The newest attempts of one delivery that are shown. */
const attemptsShownMax = 20

export const followedDelivery = Type.Object({
  target: Type.String(),
  sequence: Type.Integer({ description: 'X-Sequence.' }),
  event: orNull(Type.String(), 'null: the log holds the delivery no longer.'),
  attempts: Type.Array(attempt, { description: 'The oldest first; of many the newest.' }),
})
type FollowedDelivery = Static<typeof followedDelivery>

export async function deliveriesOf(
  context: OperationContext,
  subject: Subject,
  records: Found['records'],
): Promise<FollowedDelivery[]> {
  const found = new Map<string, FollowedDelivery>()
  const add = (delivery: Omit<FollowedDelivery, 'attempts'>) => {
    if (found.size < deliveriesMax) found.set(nameOf(delivery), { ...delivery, attempts: [] })
  }
  if (subject.delivery) add({ ...subject.delivery, event: null })
  for (const { topic, record } of records) {
    if (topic.name !== webhooksDeliveries.name) continue
    const delivery = await deliveryIn(context, record)
    if (delivery) add(delivery)
  }
  if (found.size === 0) return []
  const targets = new Set([...found.values()].map(({ target }) => target))
  await visitAttempts(context, targets, (attempt) => {
    if (attempt.kind === 'state' || attempt.sequence === null) return
    const attempts = found.get(nameOf({ target: attempt.target, sequence: attempt.sequence }))?.attempts
    attempts?.push(attempt)
    if (attempts && attempts.length > attemptsShownMax) attempts.shift()
  })
  return [...found.values()]
}

function nameOf({ target, sequence }: DeliveryName): string {
  return `${target}/${sequence}`
}

async function deliveryIn({ platform }: OperationContext, record: StoredRecord) {
  const value = await decodedValue(platform, webhooksDeliveries, record)
  return value && { target: value.target, sequence: value.sequence ?? record.offset, event: value.event }
}
