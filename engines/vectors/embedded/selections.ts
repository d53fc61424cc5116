/**
 * The rows that match a filter which words alone do not decide. Words narrow it down, the payloads decide, and the rows found are
 * kept and follow the writes for as long as the filter is asked for.
 */

import { setImmediate } from 'node:timers/promises'
import { createLru } from '#lib/lru.ts'
import type { RowFilter } from './matching-rows.ts'
import type { PointsTable } from './points-table.ts'
import type { Times } from './times-index.ts'
import { everyRow, type Words } from './words-index.ts'

/** Filters whose rows are kept: each write is looked at by every one of them. */
const keptMax = 8
const keptMs = 60_000
/** Payloads that are read before other work of the thread gets its turn. */
const rowsPerSlice = 256

/** A set of row numbers, a bit each. */
export interface Selection {
  has(n: number): boolean
  size(): number
  /** In the order of their numbers. */
  rows(): number[]
}

interface Kept {
  rows: ReturnType<typeof createRowSet>
  test(payload: string): boolean
  /** Resolves when every row was looked at. */
  complete: Promise<void>
}

export type Selections = ReturnType<typeof createSelections>

export function createSelections(table: PointsTable, words: Words, times: Times) {
  const kept = createLru<string, Kept>(keptMax, { ttl: keptMs })

  /** All rows that may match; undefined: every one. */
  function candidates({ tokens: { all, some, none }, within }: RowFilter): number[] | undefined {
    let rows: number[] | undefined
    if (all.length > 0) rows = words.rowsWith(all, everyRow)
    else if (some.length > 0) rows = words.rowsWithOneOf(some[0]!)
    if (rows) return rows.concat(words.wideRows(everyRow))
    if (within) return times.rowsWithin(within)
    return none.length > 0 ? words.rowsWithNone(none, table.everyRowNumber) : undefined
  }
  async function fill({ rows, test }: Kept, asked: RowFilter): Promise<void> {
    const ns = candidates(asked)
    for (let from = 0, after = 0; ; from += rowsPerSlice) {
      const some = ns
        ? table.payloadsOf(ns.slice(from, from + rowsPerSlice))
        : table.payloadsAfter(after, rowsPerSlice)
      for (const { n, payload } of some) rows.put(n, test(payload))
      if (ns ? from + rowsPerSlice >= ns.length : some.length < rowsPerSlice) return
      after = some.at(-1)?.n ?? after
      await setImmediate()
    }
  }
  return {
    async of(asked: RowFilter): Promise<Selection> {
      const key = JSON.stringify(asked.filter)
      let found = kept.get(key)
      // Asked for again, it is kept for another while.
      if (found) kept.set(key, found)
      else {
        found = { rows: createRowSet(), test: asked.test, complete: Promise.resolve() }
        kept.set(key, found)
        // From here on it follows the writes.
        found.complete = fill(found, asked)
        found.complete.catch(() => kept.delete(key))
      }
      await found.complete
      return found.rows
    },
    /** Takes a committed change; `payload` is JSON text, null for a row that is no more. */
    follow(n: number, payload: string | null): void {
      for (const { rows, test } of kept.values()) rows.put(n, payload !== null && test(payload))
    },
  }
}

const firstWords = 1_024

function createRowSet() {
  let bits = new Uint32Array(firstWords)
  let size = 0
  const bitOf = (n: number) => 1 << (n & 31)
  const has = (n: number) => ((bits[n >>> 5] ?? 0) & bitOf(n)) !== 0
  return {
    has,
    size: () => size,
    put(n: number, isIn: boolean): void {
      if (has(n) === isIn) return
      const word = n >>> 5
      if (word >= bits.length) {
        const larger = new Uint32Array(Math.max(word + 1, bits.length * 2))
        larger.set(bits)
        bits = larger
      }
      bits[word]! ^= bitOf(n)
      size += isIn ? 1 : -1
    },
    rows(): number[] {
      const found: number[] = []
      for (let word = 0; word < bits.length; word++) {
        for (let rest = bits[word]!; rest !== 0; rest &= rest - 1) {
          found.push(word * 32 + 31 - Math.clz32(rest & -rest))
        }
      }
      return found
    },
  }
}
