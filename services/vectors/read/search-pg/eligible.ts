/** How many rows a search of search-pg goes through. */

import { LRUCache } from 'lru-cache'
import { withTimeout } from '#lib/backoff.ts'
import { isTimeout } from './faults.ts'
import { countStatement, estimateStatement, type StatementParts } from './statement.ts'
import type { ReadRows } from './tables.ts'

const keptMs = 5_000
/** After this time a search gets the old figure, and starts counting again in the background. */
const renewedMs = 3_000
/** For a table that takes long to count: the share of time that may be spent on counting. */
const countingShare = 0.02
/** How long a search waits for the first count of a table. */
const countPatienceMs = 1_000
const keptMax = 1_000

type Parts = Pick<StatementParts, 'table' | 'filter'>

/** How many rows a search goes through, at most five seconds old where counting is quick. With a filter the result is an estimate; without one it is exact, except for tables that are too large to count. */
export function createEligibleRows() {
  const kept = new LRUCache<string, { at: number; tookMs: number; rows: number }>({ max: keptMax })
  const asked = new Map<string, Promise<number>>()

  async function estimate(parts: Parts, read: ReadRows): Promise<number> {
    const { rows } = await read<Record<string, [{ Plan: { 'Plan Rows': number } }]>>(
      estimateStatement(parts),
      parts.filter?.params ?? [],
    )
    return Object.values(rows[0]!)[0]![0].Plan['Plan Rows']
  }
  async function count({ table }: Parts, read: ReadRows): Promise<number> {
    const { rows } = await read<{ eligible: number }>(countStatement(table), [])
    return rows[0]!.eligible
  }
  async function ask(parts: Parts, read: ReadRows): Promise<number> {
    if (parts.filter !== undefined) return estimate(parts, read)
    const tooLong = new Error('counting takes too long')
    try {
      return await withTimeout(count(parts, read), countPatienceMs, () => tooLong)
    } catch (error) {
      // A table that is too large to count gets the planner's estimate.
      if (error === tooLong || isTimeout(error)) return estimate(parts, read)
      throw error
    }
  }
  function renew(key: string, parts: Parts, read: ReadRows): Promise<number> {
    const running = asked.get(key)
    if (running) return running
    const at = performance.now()
    const asking = ask(parts, read)
      .then((rows) => {
        kept.set(key, { at, tookMs: performance.now() - at, rows })
        return rows
      })
      .finally(() => asked.delete(key))
    asked.set(key, asking)
    return asking
  }
  /** `read` is used where the figure must be asked for. */
  return async (parts: Parts, read: ReadRows): Promise<number> => {
    const { table, filter } = parts
    const key = JSON.stringify([table.name, filter?.sql ?? '', filter?.params ?? []])
    const found = kept.get(key)
    if (found === undefined) return renew(key, parts, read)
    const age = performance.now() - found.at
    const patience = found.tookMs / countingShare
    if (age > Math.max(keptMs, patience * 2)) return renew(key, parts, read)
    if (age > Math.max(renewedMs, patience)) renew(key, parts, read).catch(() => {})
    return found.rows
  }
}
