/**
 * Counts the points of a collection that a filter selects: by its words where they decide, by the payloads elsewhere.
 */

import { setImmediate } from 'node:timers/promises'
import { matches } from '../filter.ts'
import type { Filter, Payload } from '../port.ts'
import type { PointsTable, StoredPoint } from './points-table.ts'
import { everyRow, type Words } from './words-index.ts'

/** Rows that are read before other work of the thread gets its turn. */
export const rowsPerSlice = 128
/** A filter's conditions beyond these are checked on the payload alone. */
export const indexedConditionsMax = 64
const countsKept = 200
const countAgeMsMax = 5_000

interface PointCounter {
  count(filter: Filter, tokens: string[]): Promise<number>
  /** As `count`, or what that said in the last seconds. */
  recentCount(filter: Filter, tokens: string[]): Promise<number>
}

export function createCounter(table: PointsTable, words: Words): PointCounter {
  const counts = new Map<string, { count: number; at: number }>()

  async function count(filter: Filter, tokens: string[]): Promise<number> {
    if (words.decides(tokens.length) && filter.must.length <= indexedConditionsMax) {
      return words.countWith(tokens) + (await countRows(words.wideRows(everyRow), filter))
    }
    return countRows(candidates(words, tokens), filter)
  }
  async function countRows(ns: number[], filter: Filter): Promise<number> {
    let found = 0
    for (let i = 0; i < ns.length; i++) {
      const row = table.byRow(ns[i]!)
      if (row && matchesRow(row, filter)) found++
      if (i % rowsPerSlice === rowsPerSlice - 1) await setImmediate()
    }
    return found
  }
  return {
    count,
    async recentCount(filter, tokens) {
      const key = JSON.stringify(filter.must)
      const known = counts.get(key)
      if (known && performance.now() - known.at < countAgeMsMax) return known.count
      const counted = await count(filter, tokens)
      if (counts.size >= countsKept) counts.clear()
      counts.set(key, { count: counted, at: performance.now() })
      return counted
    },
  }
}

/** Rows that have the words and rows that may have them. */
export function candidates(words: Words, tokens: string[]): number[] {
  return words.rowsWith(tokens, everyRow).concat(words.wideRows(everyRow))
}

export function matchesRow(row: StoredPoint, filter: Filter | undefined): boolean {
  return filter === undefined || matches(JSON.parse(row.payload) as Payload, filter)
}
