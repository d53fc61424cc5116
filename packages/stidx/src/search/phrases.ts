/** Finds the records that hold a phrase: its words, in any of their forms, next to each other in one field. */

import type { Analyzer, QueryPhrase, TextField } from '../contract.ts'
import { postingsPerBlock, textFields } from '../format.ts'
import { PhrasePlaces } from '../reader/positions.ts'
import { readRecord, wholeRecord } from '../reader/records.ts'
import { textOf } from '../reader/text.ts'
import { emptyBits, intersect, listed, markList } from './bits.ts'
import { type Engine, type LoadedTerm, loadTerm, weightShare } from './engine.ts'

interface PlacedTerm {
  term: string
  list: LoadedTerm
  /** Which word of the phrase it is. */
  index: number
}

/** What the words of a phrase add to the scores of the records that hold it, where that is known already. */
export interface PhraseScores {
  /** The lists that are in them, with their whole weight. */
  lists: Set<LoadedTerm>
  each(visit: (record: number, score: number) => void): void
}

export interface PhraseRecords {
  /** A bit for each such record. */
  bits: Uint8Array
  scores: PhraseScores | null
}

export function phraseRecords(engine: Engine, phrase: QueryPhrase): PhraseRecords {
  const bits = emptyBits(engine.file.header.records)
  const terms: PlacedTerm[] = []
  for (const [index, { terms: forms }] of phrase.words.entries()) {
    const { term } = forms[0]!
    const list = loadTerm(engine, term)
    if (!list) return { bits, scores: null }
    terms.push({ term, list, index })
  }
  const [rarest, ...others] = terms.sort((a, b) => a.list.count - b.list.count)
  if (others.length === 0) {
    markList(bits, rarest!.list, 0, engine.file.header.records)
    return { bits, scores: null }
  }
  const isPlaced = engine.file.header.hasPositions && rarest!.list.count > postingsPerBlock
  return isPlaced
    ? byPositions(engine, rarest!, others, bits)
    : { bits: byTexts(engine, terms), scores: null }
}

function byPositions(
  engine: Engine,
  rarest: PlacedTerm,
  others: readonly PlacedTerm[],
  bits: Uint8Array,
): PhraseRecords {
  const lists = new Set([rarest.list])
  const { file, scores } = engine
  const weight = weightShare(rarest.list, 100)
  const places = new PhrasePlaces(file, scores.scratch(), rarest.list, rarest.index, weight)
  for (const { list, index } of others) {
    // A word that comes again adds nothing.
    places.keep(list, index, lists.has(list) ? 0 : weightShare(list, 100))
    lists.add(list)
  }
  places.mark(bits)
  return { bits, scores: { lists, each: (visit) => places.each(visit) } }
}

/** Few records have the rarest word: their stored texts are read. */
function byTexts(engine: Engine, terms: readonly PlacedTerm[]): Uint8Array {
  const { records } = engine.file.header
  const bits = emptyBits(records)
  terms.forEach(({ list }, i) => {
    const has = i === 0 ? bits : emptyBits(records)
    markList(has, list, 0, records)
    if (i > 0) intersect(bits, has)
  })
  const inOrder = terms.toSorted((a, b) => a.index - b.index).map(({ term }) => term)
  for (const record of listed(bits, Number.POSITIVE_INFINITY).first) {
    if (!holdsTerms(engine, record, inOrder)) bits[record >> 3]! &= ~(1 << (record & 7))
  }
  return bits
}

function holdsTerms({ file, analyzer }: Engine, record: number, terms: readonly string[]): boolean {
  const source = wholeRecord(readRecord(file, record))
  return textFields.some((field) => fieldHolds(analyzer, textOf(source, field), field, terms))
}

function fieldHolds(analyzer: Analyzer, text: string, field: TextField, terms: readonly string[]): boolean {
  if (text === '') return false
  // One position may have several terms: a name and its parts.
  const positions: Set<string>[] = []
  analyzer.analyzeField(text, field, (term, position) => {
    positions[position] ??= new Set()
    positions[position].add(term)
  })
  for (let start = 0; start + terms.length <= positions.length; start++) {
    if (terms.every((term, i) => positions[start + i]!.has(term))) return true
  }
  return false
}
