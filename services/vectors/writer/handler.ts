/** A batch of one partition in, one engine call for each collection of it, an outcome for each message out. */

import type { PointOperation } from '#engines/vectors/port.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { done, type Outcome, park, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consumer.ts'
import type { Message } from '#runtime/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parseOperation } from '../index/operation.ts'
import type { ApplyPoints } from './joined-apply.ts'

/** An operation and its message's place in the batch. */
interface Pending {
  index: number
  operation: PointOperation
}

/** Refused for good by the engine, with what it said. */
type Refused = Map<Pending, string>

export function createHandler(applyPoints: ApplyPoints) {
  return async function writeVectors(
    messages: Message<VectorUpsert>[],
    context: Pick<CallContext, 'signal'>,
  ): Promise<Outcome[]> {
    const outcomes = new Array<Outcome>(messages.length).fill(done)
    const groups = new Map<string, Pending[]>()
    messages.forEach((message, index) => {
      const parsed = parseOperation(message)
      if ('fault' in parsed) {
        outcomes[index] = park(parsed.fault)
        return
      }
      const group = groups.get(parsed.collection) ?? []
      groups.set(parsed.collection, group)
      group.push({ index, operation: parsed.operation })
    })
    await Promise.all(
      [...groups].map(([collection, group]) => {
        const apply = (operations: PointOperation[]) => {
          context.signal.throwIfAborted()
          return applyPoints(collection, operations)
        }
        return writeCollection(apply, group, outcomes)
      }),
    )
    return outcomes
  }
}

type Apply = (operations: PointOperation[]) => Promise<void>

/**
 * Writes the last operation of each point. Where the engine refuses that one, the point's operation before it counts,
 * as it would have without batches.
 */
async function writeCollection(apply: Apply, group: Pending[], outcomes: Outcome[]): Promise<void> {
  for (let left = group; left.length > 0; ) {
    const last = new Map(left.map((pending) => [pending.operation.id, pending]))
    let refused: Refused
    try {
      refused = await applyHalving(apply, [...last.values()])
    } catch (error) {
      if (!isUnavailable(error)) throw error
      for (const { index } of left) outcomes[index] = unavailable('vectors', error.message)
      return
    }
    for (const [pending, reason] of refused) outcomes[pending.index] = park(reason)
    const refusedIds = new Set([...refused.keys()].map((pending) => pending.operation.id))
    left = left.filter((pending) => refusedIds.has(pending.operation.id) && !refused.has(pending))
  }
}

/** One call; a refused one is halved until what the engine refuses stands alone. */
async function applyHalving(apply: Apply, group: Pending[]): Promise<Refused> {
  try {
    await apply(group.map((pending) => pending.operation))
    return new Map()
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'validation_failed') throw error
    if (group.length === 1) return new Map([[group[0]!, error.message]])
    const middle = group.length >> 1
    const first = await applyHalving(apply, group.slice(0, middle))
    const second = await applyHalving(apply, group.slice(middle))
    return new Map([...first, ...second])
  }
}
