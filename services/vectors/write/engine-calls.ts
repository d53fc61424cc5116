/**
 * Cuts a batch into calls of the engine: after one that took too long the partition's calls take half as many records,
 * down to one, and grow again while they work. A record that is alone in its call and still finds no end is reported.
 */

import { AppError, describeError, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, split, unavailable } from '#lib/outcome.ts'
import type { StuckRecords } from './stuck.ts'

/** Calls that must have worked before they take twice as many records. */
const workedUntilGrowth = 16

/** A record, and what the engine gets of it. */
export interface Pending<T> {
  /** Its place in the batch. */
  index: number
  offset: number
  key: string
  operation: T
}

interface EngineCall {
  partition: number
  signal: AbortSignal
}

export interface EngineCalls {
  /**
   * Writes what it can within the time of one handler call, in order. `alone`: the call must not be joined with those of
   * other partitions, because it may be the one that takes too long. Resolves with the number of written records and
   * the fault of the call that ended the writing early; never rejects.
   */
  write<T>(
    pending: Pending<T>[],
    call: EngineCall,
    write: (some: Pending<T>[], alone: boolean) => Promise<void>,
  ): Promise<{ written: number; fault: unknown }>
}

export function createEngineCalls(parts: {
  recordsMax: number
  /** No further call begins after this time. */
  budgetMs: number
  stuck: Pick<StuckRecords, 'failedAlone'>
}): EngineCalls {
  /** Partitions whose calls are smaller than usual. */
  const smaller = new Map<number, { size: number; worked: number }>()

  function worked(partition: number): void {
    const state = smaller.get(partition)
    if (!state || ++state.worked < workedUntilGrowth) return
    state.worked = 0
    state.size *= 2
    if (state.size >= parts.recordsMax) smaller.delete(partition)
  }

  return {
    async write(pending, { partition, signal }, write) {
      const begunAt = performance.now()
      let written = 0
      while (written < pending.length) {
        if (written > 0 && performance.now() - begunAt > parts.budgetMs) return { written, fault: slow() }
        const size = smaller.get(partition)?.size ?? parts.recordsMax
        const some = pending.slice(written, written + size)
        try {
          signal.throwIfAborted()
          await write(some, smaller.has(partition))
        } catch (fault) {
          if (isUnavailable(fault) || signal.aborted) {
            smaller.set(partition, { size: Math.max(1, some.length >> 1), worked: 0 })
            const { offset, key } = some[0]!
            if (some.length === 1) {
              parts.stuck.failedAlone({ partition, offset, key }, describeError(fault))
            }
          }
          return { written, fault }
        }
        worked(partition)
        written += some.length
      }
      return { written, fault: null }
    },
  }
}

/** Of the records that were not written. A fault that says nothing about engine or records is thrown on. */
export function outcomeOfFault(engine: string, fault: unknown): BatchOutcome {
  if (isUnavailable(fault)) return unavailable(engine, fault.message)
  if (fault instanceof AppError && fault.code === 'validation_failed') return split(fault.message)
  throw fault
}

function slow(): AppError {
  return new AppError('overloaded', 'The engine is slow: the rest of the batch follows.')
}
