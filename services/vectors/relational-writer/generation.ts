/** Writes batches into one generation of the mirror, and keeps the position of each partition with the rows. */

import type {
  Mirror,
  MirrorOperation,
  MirrorPosition,
  MirrorTarget,
} from '#engines/relational/mirror/port.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, done, park, split, unavailable } from '#lib/outcome.ts'
import type { Message } from '#runtime/messages.ts'
import type { Pace } from '#runtime/pace.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import type { GenerationHandler } from '../index/generation-writer.ts'
import { parseOperation } from '../index/operation.ts'
import { type ApplyRows, joinApplies } from './joined-apply.ts'
import { rowOf } from './row.ts'

/** Audit notes are only searched by their meaning: the mirror does not hold them. */
const auditNotes = 'fleet_notes/audit-'
/** A position that passes nothing but audit notes is written only after this many: reading them again costs little. */
const skippedMax = 1_000

export interface GenerationParts {
  mirror: Pick<Mirror, 'driver' | 'apply' | 'positions'>
  target: MirrorTarget
  /** The first offset of the log in each partition. */
  logStarts(): Promise<ReadonlyMap<number, number>>
  /** Slows rows down while other work comes first. */
  pace?: Pace
}

export function createGeneration(parts: GenerationParts): GenerationHandler {
  const { mirror, target } = parts
  /** The position of each partition in the tables. */
  const kept = new Map<number, number>()
  /** Partitions with a parked record that their position has not passed yet. */
  const parked = new Set<number>()
  /** Gained partitions in which a former owner may have parked a record that their position has not passed. */
  const uncertain = new Set<number>()
  const applyJoined = joinApplies(mirror, target)
  const apply: ApplyRows = async (operations, positions) => {
    await applyJoined(operations, positions)
    for (const { partition, next } of positions) kept.set(partition, next)
  }

  return {
    async handle(messages, context) {
      const outcomes = new Array<BatchOutcome>(messages.length).fill(done)
      const pending = parse(messages, outcomes, target.epoch)
      if (pending.length > 0) {
        await parts.pace?.take(pending.length, context.signal)
        context.signal.throwIfAborted()
        const outcome = await write(
          apply,
          pending,
          parked.has(context.partition) ? [] : positionsAfter(pending.at(-1)!, outcomes),
        )
        for (const { index } of pending) outcomes[index] = outcome
      }
      return outcomes
    },
    /**
     * A partition without a position in the tables begins with the log, whatever was committed: its rows are not here.
     */
    async positions(partitions) {
      const starts = await parts.logStarts()
      const held = new Map((await mirror.positions(target)).map((one) => [one.partition, one.next]))
      for (const partition of partitions) {
        kept.set(partition, held.get(partition) ?? starts.get(partition) ?? 0)
        uncertain.add(partition)
      }
      return new Map(partitions.map((partition) => [partition, kept.get(partition)!]))
    },
    parked(partition) {
      parked.add(partition)
    },
    async settled(partition, throughOffset) {
      const behind = throughOffset + 1 - (kept.get(partition) ?? 0)
      const mustPass = parked.has(partition) || uncertain.has(partition)
      if (behind <= 0 || (behind < skippedMax && !mustPass)) return
      await apply([], [{ partition, next: throughOffset + 1 }])
      parked.delete(partition)
      uncertain.delete(partition)
    },
  }
}

/** An operation and the position of its message in the batch. */
interface Pending {
  index: number
  operation: MirrorOperation
}

/** What is to be written, in order. Records that can never be written get their outcome here. */
function parse(messages: Message<VectorUpsert>[], outcomes: BatchOutcome[], epoch: number): Pending[] {
  const pending: Pending[] = []
  for (const [index, message] of messages.entries()) {
    if (message.key.startsWith(auditNotes)) continue
    const parsed = parseOperation(message, epoch)
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

/** Writes all of a batch or nothing of it, in the order of the log. */
async function write(
  apply: ApplyRows,
  pending: Pending[],
  positions: MirrorPosition[],
): Promise<BatchOutcome> {
  try {
    await apply(
      pending.map((one) => one.operation),
      positions,
    )
    return done
  } catch (error) {
    if (isUnavailable(error)) return unavailable('relational', error.message)
    if (error instanceof AppError && error.code === 'validation_failed') return split(error.message)
    throw error
  }
}

/** A position never passes a record that is yet to be parked. */
function positionsAfter({ index, operation }: Pending, outcomes: BatchOutcome[]): MirrorPosition[] {
  if (outcomes.slice(0, index).some((outcome) => outcome.kind === 'park')) return []
  return [{ partition: operation.partition, next: operation.offset + 1 }]
}
