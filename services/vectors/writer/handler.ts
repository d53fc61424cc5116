/** Applies a batch of one partition to the vector engine, with one call for each collection. */

import type { PointOperation } from '#engines/vectors/port.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, done, park, split, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consumer.ts'
import type { Message } from '#runtime/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parseOperation } from '../index/operation.ts'
import type { ApplyPoints } from './joined-apply.ts'

/** An operation and the position of its message in the batch. */
interface Pending {
  index: number
  operation: PointOperation
}

/** `epoch` is that of the topic the messages are read from. */
export function createHandler(applyPoints: ApplyPoints, epoch: number) {
  return async function writeVectors(
    messages: Message<VectorUpsert>[],
    context: Pick<CallContext, 'signal'>,
  ): Promise<BatchOutcome[]> {
    const outcomes = new Array<BatchOutcome>(messages.length).fill(done)
    const groups = new Map<string, Pending[]>()
    messages.forEach((message, index) => {
      const parsed = parseOperation(message, epoch)
      if ('fault' in parsed) {
        outcomes[index] = park(parsed.fault)
        return
      }
      const group = groups.get(parsed.collection) ?? []
      groups.set(parsed.collection, group)
      group.push({ index, operation: parsed.operation })
    })
    await Promise.all(
      [...groups].map(async ([collection, group]) => {
        context.signal.throwIfAborted()
        const outcome = await writeCollection(applyPoints, collection, group)
        for (const { index } of group) outcomes[index] = outcome
      }),
    )
    return outcomes
  }
}

/**
 * Writes the last operation of each point. Where the engine refuses them, halving the batch lets the operation before
 * the refused one count, as it would have without batches.
 */
async function writeCollection(
  applyPoints: ApplyPoints,
  collection: string,
  group: Pending[],
): Promise<BatchOutcome> {
  const last = new Map(group.map(({ operation }) => [operation.id, operation]))
  try {
    await applyPoints(collection, [...last.values()])
    return done
  } catch (error) {
    if (isUnavailable(error)) return unavailable('vectors', error.message)
    if (error instanceof AppError && error.code === 'validation_failed') return split(error.message)
    throw error
  }
}
