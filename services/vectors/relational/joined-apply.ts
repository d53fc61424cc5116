/** Joins batches of several partitions into few transactions. */

import type {
  Mirror,
  MirrorOperation,
  MirrorPosition,
  MirrorTarget,
} from '#engines/relational/mirror/port.ts'
import { AppError } from '#lib/errors.ts'
import type { OpenSpan, Tracing } from '#runtime/observe/tracing/tracing.ts'

/** `alone`: the transaction is not joined with those of others. */
export type ApplyRows = (
  operations: MirrorOperation[],
  positions: MirrorPosition[],
  alone?: boolean,
) => Promise<void>

/** Operations of one transaction at most, unless one batch alone has more. */
const operationsMax = 600
/** A server has a core for a second one; the embedded engine is one thread. */
const transactionsMax = { postgres: 2, embedded: 1 }

interface Waiting {
  operations: MirrorOperation[]
  positions: MirrorPosition[]
  alone: boolean
  /** What it is done for. */
  spans: readonly OpenSpan[]
  resolve(): void
  reject(error: unknown): void
}

/**
 * What comes while transactions run goes together into the next one: its price, above all the wait for the disk, is
 * paid once for all. Batches that are on their way at the same time are of different partitions, so they share no
 * point. Where the engine refuses a joined transaction, each batch is tried by itself, so that each one learns of its
 * own fault alone.
 */
export function joinApplies(
  mirror: Pick<Mirror, 'driver' | 'apply'>,
  target: MirrorTarget,
  tracing?: Pick<Tracing, 'current' | 'run'>,
): ApplyRows {
  const waiting: Waiting[] = []
  let running = 0
  let planned = false

  function pump(): void {
    planned = false
    while (waiting.length > 0 && running < transactionsMax[mirror.driver]) {
      running++
      void write(takeNext(waiting)).finally(() => {
        running--
        pump()
      })
    }
  }

  async function write(part: Waiting[]): Promise<void> {
    try {
      const call = () =>
        mirror.apply(
          target,
          part.flatMap((one) => one.operations),
          part.flatMap((one) => one.positions),
        )
      const spans = part.flatMap((one) => one.spans)
      await (tracing ? tracing.run(spans, call) : call())
      for (const one of part) one.resolve()
    } catch (error) {
      const refused = error instanceof AppError && error.code === 'validation_failed'
      if (refused && part.length > 1) for (const one of part) await write([one])
      else for (const one of part) one.reject(error)
    }
  }

  return (operations, positions, alone = false) =>
    new Promise((resolve, reject) => {
      const spans = tracing?.current() ?? []
      waiting.push({ operations, positions, alone, spans, resolve, reject })
      // Partitions hand in their batches within one turn of the event loop: the first waits for the others.
      if (!planned) setImmediate(pump)
      planned = true
    })
}

function takeNext(waiting: Waiting[]): Waiting[] {
  let operations = 0
  let count = 0
  for (const one of waiting) {
    operations += one.operations.length
    if (count > 0 && (operations > operationsMax || one.alone || waiting[0]!.alone)) break
    count++
  }
  return waiting.splice(0, count)
}
