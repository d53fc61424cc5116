/** Where the terms of a record are, by the analyser alone: what a search for a phrase is compared with. */

import { analyzer } from '../../src/analysis/analyzer.ts'
import { textFields } from '../../src/format.ts'

/** All terms at each position of each field. */
export function placesOf(record: Record<string, unknown>): Set<string>[][] {
  return textFields.map((field) => {
    const positions: Set<string>[] = []
    analyzer.analyzeField(String(record[field] ?? ''), field, (term, position) => {
      positions[position] ??= new Set()
      positions[position].add(term)
    })
    return positions
  })
}

/** Whether the terms follow each other in one of the fields. */
export function holds(fields: Set<string>[][], terms: readonly string[]): boolean {
  return fields.some((positions) =>
    positions.some((_, start) => terms.every((term, i) => positions[start + i]?.has(term))),
  )
}
