/** A table and a filter in, how many rows a search goes through out: counted or estimated, five seconds old at most where counting is quick. */

import { LRUCache } from 'lru-cache'
import { withTimeout } from '#lib/backoff.ts'
import { isTimeout } from './faults.ts'
import { countStatement, estimateStatement, type StatementParts } from './statement.ts'
import type { ReadRows } from './tables.ts'

const keptMs = 5_000
/** From then on it is counted anew beside the search that asks, which takes the old figure. */
const renewedMs = 3_000
/** Of a table that takes long to count: counting may not be more than this part of the time. */
const countingShare = 0.02
/** How long a search waits for the first count of a table. */
const countPatienceMs = 1_000
const keptMax = 1_000

interface Counted {
  at: number
  tookMs: number
  rows: number
}

export type EligibleRows = (parts: Pick<StatementParts, 'table' | 'filter'>) => Promise<number>

/** What resolves may come from an estimate with a filter; without one it is exact, but for tables too large to count. */
export function createEligibleRows(read: ReadRows): EligibleRows {
  const kept = new LRUCache<string, Counted>({ max: keptMax })
  const asked = new Map<string, Promise<number>>()

  async function estimate(parts: Pick<StatementParts, 'table' | 'filter'>): Promise<number> {
    const { rows } = await read<Record<string, [{ Plan: { 'Plan Rows': number } }]>>(
      estimateStatement(parts),
      parts.filter?.params ?? [],
    )
    return Object.values(rows[0]!)[0]![0].Plan['Plan Rows']
  }
  async function count({ table }: Pick<StatementParts, 'table'>): Promise<number> {
    const { rows } = await read<{ eligible: number }>(countStatement(table), [])
    return rows[0]!.eligible
  }
  async function ask(parts: Pick<StatementParts, 'table' | 'filter'>): Promise<number> {
    if (parts.filter !== undefined) return estimate(parts)
    const tooLong = new Error('counting takes too long')
    try {
      return await withTimeout(count(parts), countPatienceMs, () => tooLong)
    } catch (error) {
      // Of a table too large for it the planner's estimate has to do.
      if (error === tooLong || isTimeout(error)) return estimate(parts)
      throw error
    }
  }
  function renew(key: string, parts: Pick<StatementParts, 'table' | 'filter'>): Promise<number> {
    const running = asked.get(key)
    if (running) return running
    const at = performance.now()
    const asking = ask(parts)
      .then((rows) => {
        kept.set(key, { at, tookMs: performance.now() - at, rows })
        return rows
      })
      .finally(() => asked.delete(key))
    asked.set(key, asking)
    return asking
  }
  return async (parts) => {
    const key = keyOf(parts)
    const found = kept.get(key)
    if (found === undefined) return renew(key, parts)
    const age = performance.now() - found.at
    const patience = found.tookMs / countingShare
    if (age > Math.max(keptMs, patience * 2)) return renew(key, parts)
    if (age > Math.max(renewedMs, patience)) renew(key, parts).catch(() => {})
    return found.rows
  }
}

function keyOf({ table, filter }: Pick<StatementParts, 'table' | 'filter'>): string {
  return JSON.stringify([table.name, filter?.sql ?? '', filter?.params ?? []])
}
