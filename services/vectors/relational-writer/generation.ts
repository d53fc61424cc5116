/** Batches of one generation in; rows and positions of the mirror, and an outcome for each message, out. */

import type {
  Mirror,
  MirrorOperation,
  MirrorPosition,
  MirrorTarget,
} from '#engines/relational/mirror/port.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { done, type Outcome, park, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consumer.ts'
import type { Message } from '#runtime/messages.ts'
import type { Pace } from '#runtime/pace.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import type { GenerationHandler } from '../index/generation-writer.ts'
import { parseOperation } from '../index/operation.ts'
import { type ApplyRows, joinApplies } from './joined-apply.ts'
import { rowOf } from './row.ts'

/** Audit notes are searched by their meaning alone; the mirror leaves them out. */
const auditNotes = 'fleet_notes/audit-'
/** Positions that pass nothing but audit notes are kept this seldom: reading them once more costs little. */
const skippedMax = 1_000

export interface GenerationParts {
  mirror: Pick<Mirror, 'driver' | 'apply' | 'positions'>
  target: MirrorTarget
  /** Partition → the first offset of the log. */
  logStarts(): Promise<ReadonlyMap<number, number>>
  /** Holds rows back while others come first. */
  pace?: Pace
}

export function createGeneration(parts: GenerationParts): GenerationHandler {
  const { mirror, target } = parts
  /** Partition → the position in the tables. */
  const kept = new Map<number, number>()
  /** Partitions with a parked record that their position may not have passed yet. */
  const parked = new Set<number>()
  const applyJoined = joinApplies(mirror, target)
  const apply: ApplyRows = async (operations, positions) => {
    await applyJoined(operations, positions)
    for (const { partition, next } of positions) kept.set(partition, next)
  }

  return {
    async handle(messages, context) {
      const outcomes = new Array<Outcome>(messages.length).fill(done)
      const pending = parse(messages, outcomes)
      if (pending.length > 0) {
        await parts.pace?.take(pending.length, context.signal)
        await write(apply, { pending, outcomes, context })
      }
      return outcomes
    },
    /** A partition that the tables know nothing of begins with the log: its rows are not here, whatever was committed. */
    async positions(partitions) {
      const starts = await parts.logStarts()
      const held = new Map((await mirror.positions(target)).map((one) => [one.partition, one.next]))
      for (const partition of partitions) {
        kept.set(partition, held.get(partition) ?? starts.get(partition) ?? 0)
        // Whether a former owner parked something there is not known.
        parked.add(partition)
      }
      return new Map(partitions.map((partition) => [partition, kept.get(partition)!]))
    },
    parked(partition) {
      parked.add(partition)
    },
    async settled(partition, throughOffset) {
      const behind = throughOffset + 1 - (kept.get(partition) ?? 0)
      if (behind <= 0 || (behind < skippedMax && !parked.has(partition))) return
      await apply([], [{ partition, next: throughOffset + 1 }])
      parked.delete(partition)
    },
  }
}

/** An operation and its message's place in the batch. */
interface Pending {
  index: number
  operation: MirrorOperation
}

interface Batch {
  pending: Pending[]
  outcomes: Outcome[]
  context: CallContext
}

/** What is to be written, in order; what can never be gets its outcome here. */
function parse(messages: Message<VectorUpsert>[], outcomes: Outcome[]): Pending[] {
  const pending: Pending[] = []
  for (const [index, message] of messages.entries()) {
    if (message.key.startsWith(auditNotes)) continue
    const parsed = parseOperation(message)
    if ('fault' in parsed) {
      outcomes[index] = park(parsed.fault)
      continue
    }
    const { collection, operation } = parsed
    const { partition, offset } = message
    const row = operation.kind === 'delete' ? null : rowOf(operation)
    pending.push({ index, operation: { partition, offset, collection, id: operation.id, row } })
  }
  return pending
}

/**
 * Writes in pieces that keep the order of the log, halves of what the engine refuses: so the operation before a refused
 * one counts, as it would have without batches. A position never passes a record that is yet to be parked.
 */
async function write(apply: ApplyRows, { pending, outcomes, context }: Batch): Promise<void> {
  const pieces = [pending]
  for (let piece = pieces.pop(); piece; piece = pieces.pop()) {
    context.signal.throwIfAborted()
    const last = piece.at(-1)!
    try {
      await apply(
        piece.map((one) => one.operation),
        positionsAfter(last, outcomes),
      )
    } catch (error) {
      if (isUnavailable(error)) {
        const left = new Set([...piece, ...pieces.flat()])
        for (const { index } of left) outcomes[index] = unavailable('relational', error.message)
        return
      }
      if (!(error instanceof AppError) || error.code !== 'validation_failed') throw error
      if (piece.length === 1) {
        outcomes[last.index] = park(error.message)
        continue
      }
      const middle = piece.length >> 1
      pieces.push(piece.slice(middle), piece.slice(0, middle))
    }
  }
}

function positionsAfter({ index, operation }: Pending, outcomes: Outcome[]): MirrorPosition[] {
  if (outcomes.slice(0, index).some((outcome) => outcome.kind === 'park')) return []
  return [{ partition: operation.partition, next: operation.offset + 1 }]
}
