/** Writes what a batch holds of one collection in the order of the log, also where records depend on those before them. */

import type { HeldPoint, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, park, unavailable } from '#lib/outcome.ts'
import type { Publisher } from '#runtime/publish/messages.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { type Basis, correctionRecord, type Settled, settle } from './based-records.ts'
import type { Pending } from './generation-writer.ts'

/** A record of the batch. */
export type Read = Pending<PointOperation> & { timestamp: number; basis: Basis | undefined }

export type BasedParts = ReturnType<typeof createBased>

/** A rebuild reads old records again, whose corrections lie in the log. Those of younger ones may be missing. */
const youngMs = 600_000

export function createBased(
  vectors: Pick<VectorStore, 'held' | 'liveGeneration'>,
  publisher: Pick<Publisher, 'publish'>,
  generation: number,
) {
  return {
    held: (collection: string, ids: string[]): Promise<HeldPoint[]> =>
      vectors.held(collection, ids, { generation }),
    /** Throws AppError `log_unavailable` or `vector_engine_unavailable`. */
    async correct(collection: string, settled: { read: Read; settled: Settled }[]): Promise<void> {
      const youngest = Math.max(...settled.map(({ read }) => read.timestamp))
      if (youngest < Date.now() - youngMs && (await vectors.liveGeneration()) !== generation) return
      const records = settled.flatMap(({ read, settled: { correction } }) =>
        correction ? [correctionRecord(collection, read.operation.id, correction)] : [],
      )
      await publisher.publish(vectorsCommands, records)
    },
  }
}

/**
 * `write` writes operations in one go, the last of each point, and resolves with the outcome of those that are not written.
 * Corrections are published before what they correct is written, so that a kill in between loses none.
 */
export async function writeInOrder(
  based: BasedParts,
  collection: string,
  group: Read[],
  write: (part: Pending<PointOperation>[]) => Promise<BatchOutcome | null>,
  outcomes: BatchOutcome[],
): Promise<void> {
  if (group.every(({ basis }) => !basis)) return void (await write(group))
  let from = 0
  for (const part of inParts(group)) {
    const refused = await writePart(part).catch(outcomeOfAway)
    from += part.length
    if (!refused) continue
    for (const { index } of group.slice(from - (refused.whole ? part.length : 0)))
      outcomes[index] = refused.outcome
    return
  }

  async function writePart(part: Read[]) {
    const ids = part.flatMap(({ basis, operation }) => (basis ? [operation.id] : []))
    const held = new Map((await based.held(collection, ids)).map((one) => [one.id, one]))
    const settled = part.map((read) => {
      const { operation, basis } = read
      return { read, settled: basis ? settle(operation, basis, held.get(operation.id)) : { operation } }
    })
    if (settled.some((one) => one.settled.correction)) await based.correct(collection, settled)
    const pending: Pending<PointOperation>[] = []
    for (const {
      read,
      settled: { operation, fault },
    } of settled) {
      if (fault !== undefined)
        outcomes[read.index] = park(`point ${read.operation.id.slice(0, 100)}: ${fault}`)
      else if (operation) pending.push({ ...read, operation })
    }
    const outcome = pending.length === 0 ? null : await write(pending)
    return outcome && { outcome, whole: false }
  }
}

/** Within a part no record depends on another one. */
function inParts(group: Read[]): Read[][] {
  const parts: Read[][] = [[]]
  let ids = new Set<string>()
  for (const read of group) {
    if (read.basis && ids.has(read.operation.id)) {
      parts.push([])
      ids = new Set()
    }
    parts.at(-1)!.push(read)
    ids.add(read.operation.id)
  }
  return parts
}

function outcomeOfAway(error: unknown): { outcome: BatchOutcome; whole: true } {
  if (!isUnavailable(error)) throw error
  const engine = error instanceof AppError && error.code === 'log_unavailable' ? 'log' : 'vectors'
  return { outcome: unavailable(engine, error.message), whole: true }
}
