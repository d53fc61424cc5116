/** Joins writes of several partitions that arrive together into one engine call for each collection. */

import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'

export type ApplyPoints = (collection: string, operations: PointOperation[]) => Promise<void>

/** Operations that one engine call takes at most; more go into the next one. */
const joinedOperationsMax = 2_000

interface Waiting {
  collection: string
  operations: PointOperation[]
  resolve(): void
  reject(error: unknown): void
}

/**
 * Each partition has a batch of its own, and a request of many points touches all of them: what comes within one turn
 * of the event loop is written by one call, because the price of a call (a message to the engine, a transaction) is
 * paid once then. Callers that come together never hold the same point: it has one partition, and that one batch in
 * flight. Where the engine refuses a joined call, each caller's part is tried by itself, so that each one learns of its
 * own fault alone.
 */
export function joinApplies(apply: VectorStore['apply'], generation: number): ApplyPoints {
  let waiting: Waiting[] = []

  async function write(part: Waiting[]): Promise<void> {
    const collection = part[0]!.collection
    try {
      await apply(
        collection,
        part.flatMap((one) => one.operations),
        { generation },
      )
      for (const one of part) one.resolve()
    } catch (error) {
      const refused = error instanceof AppError && error.code === 'validation_failed'
      if (refused && part.length > 1) for (const one of part) void write([one])
      else for (const one of part) one.reject(error)
    }
  }

  return (collection, operations) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) {
        setImmediate(() => {
          const together = waiting
          waiting = []
          for (const part of partsOf(together)) void write(part)
        })
      }
      waiting.push({ collection, operations, resolve, reject })
    })
}

/** What one call each may take: callers of one collection, whole, up to the most operations. */
function partsOf(together: Waiting[]): Waiting[][] {
  const parts: Waiting[][] = []
  for (const ofCollection of Map.groupBy(together, (one) => one.collection).values()) {
    let size = 0
    for (const one of ofCollection) {
      size += one.operations.length
      if (size > joinedOperationsMax || size === one.operations.length) {
        parts.push([])
        size = one.operations.length
      }
      parts.at(-1)!.push(one)
    }
  }
  return parts
}
