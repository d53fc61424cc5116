/** What records must have in; a bit for each record that has it all out. */

import type { ParsedQuery, QueryFilter, SearchOptions } from '../contract.ts'
import { textFields, valuePrefix, valueSeparator } from '../format.ts'
import { type Engine, loadTerm } from './engine.ts'
import { phraseRecords } from './phrases.ts'
import { loadTerms } from './words.ts'

/** Null where nothing is required. The bits lie in the kernel's memory. */
export function eligibleRecords(
  engine: Engine,
  query: ParsedQuery,
  options: SearchOptions,
): Uint8Array | null {
  const steps: (() => Uint8Array)[] = [
    ...[...optionFilters(options), ...query.filters].map((filter) => () => filterRecords(engine, filter)),
    ...query.phrases.map((phrase) => () => phraseRecords(engine, phrase)),
  ]
  let eligible: { at: number; length: number } | null = null
  for (const step of steps) {
    const bits = step()
    // The memory may have grown since: only the place of the earlier bits is sure.
    if (eligible) intersect(bits, engine.kernel.view(eligible.at, eligible.length))
    eligible = { at: bits.byteOffset, length: bits.length }
  }
  return eligible && engine.kernel.view(eligible.at, eligible.length)
}

function optionFilters({ collection, status, tag }: SearchOptions): QueryFilter[] {
  const wanted = { collection, status, tags: tag }
  return Object.entries(wanted).flatMap(([field, value]) =>
    value === undefined ? [] : [{ kind: 'value' as const, field, value }],
  )
}

function filterRecords(engine: Engine, filter: QueryFilter): Uint8Array {
  if (filter.kind === 'value') return valueRecords(engine, filter.field, filter.value)
  const fields = 1 << textFields.indexOf(filter.field)
  let bits: Uint8Array | null = null
  for (const word of filter.words) {
    const lists = loadTerms(engine, word.terms)
    const next = engine.kernel.allocateBits()
    for (const { list } of lists) engine.kernel.mark(list, true, fields, next.byteOffset)
    if (bits) intersect(next, engine.kernel.view(bits.byteOffset, bits.length))
    bits = next
  }
  return bits ?? engine.kernel.allocateBits()
}

function valueRecords(engine: Engine, field: string, value: string): Uint8Array {
  const term = `${valuePrefix}${field}${valueSeparator}${engine.analyzer.fold(value)}`
  const list = loadTerm(engine, term)
  const bits = engine.kernel.allocateBits()
  if (list) engine.kernel.mark(list, false, 0, bits.byteOffset)
  return bits
}

export function intersect(bits: Uint8Array, other: Uint8Array): void {
  for (let i = 0; i < bits.length; i++) bits[i]! &= other[i]!
}

/** The numbers of the first `limit` records whose bit is set, and how many there are in all. */
export function listed(bits: Uint8Array, limit: number): { first: number[]; total: number } {
  const first: number[] = []
  let total = 0
  for (let i = 0; i < bits.length; i++) {
    for (let rest = bits[i]!; rest !== 0; rest &= rest - 1) {
      total++
      if (first.length < limit) first.push(i * 8 + 31 - Math.clz32(rest & -rest))
    }
  }
  return { first, total }
}
