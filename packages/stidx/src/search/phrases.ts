/** Finds the records that hold a phrase: its words, in any of their forms, next to each other in one field. */

import type { Analyzer, QueryPhrase, TextField } from '../contract.ts'
import { textFields } from '../format.ts'
import { decisiveTerm } from '../query/words.ts'
import { PhrasePlaces, type PlacedList } from '../reader/positions.ts'
import { readRecord, wholeRecord } from '../reader/records.ts'
import { textOf } from '../reader/text.ts'
import { emptyBits, intersect, listed, markList } from './bits.ts'
import { type Engine, type LoadedTerm, loadTerm, weightShare } from './engine.ts'

interface PhraseTerm<List = LoadedTerm> {
  term: string
  list: List
  /** Which word of the phrase it is. */
  index: number
}

type PlacedTerm = PhraseTerm<LoadedTerm & PlacedList>

/** Scores that the words of a phrase add to the records that hold it, where they are known already. */
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

/** Looks among the eligible records only, where that saves reading: the caller still has to drop the others. */
export function phraseRecords(
  engine: Engine,
  phrase: QueryPhrase,
  eligible: Uint8Array | null,
): PhraseRecords {
  const bits = emptyBits(engine.file.header.records)
  const terms: PhraseTerm[] = []
  for (const [index, word] of phrase.words.entries()) {
    const term = decisiveTerm(word)
    const list = loadTerm(engine, term)
    if (!list) return { bits, scores: null }
    terms.push({ term, list, index })
  }
  terms.sort((a, b) => a.list.count - b.list.count)
  if (terms.length === 1) {
    markList(bits, terms[0]!.list, 0, engine.file.header.records)
    return { bits, scores: null }
  }
  return terms.every(isPlaced)
    ? byPositions(engine, terms, bits)
    : { bits: byTexts(engine, terms, eligible), scores: null }
}

function isPlaced(term: PhraseTerm): term is PlacedTerm {
  return term.list.positionsAt !== null
}

/** The rarest term is the first one. */
function byPositions(engine: Engine, terms: readonly PlacedTerm[], bits: Uint8Array): PhraseRecords {
  const rarest = terms[0]!
  const lists = new Set<LoadedTerm>([rarest.list])
  const { file, scores } = engine
  const weight = weightShare(rarest.list, 100)
  const places = new PhrasePlaces(file, scores.scratch(), rarest.list, rarest.index, weight)
  for (const { list, index } of terms.slice(1)) {
    // A word that comes again adds nothing.
    places.keep(list, index, lists.has(list) ? 0 : weightShare(list, 100))
    lists.add(list)
  }
  places.mark(bits)
  return { bits, scores: { lists, each: (visit) => places.each(visit) } }
}

/**
 * Some term has no positions: it is in few and short records, or the file has none at all. Reads the stored texts of the
 * records that hold all terms.
 */
function byTexts(engine: Engine, terms: readonly PhraseTerm[], eligible: Uint8Array | null): Uint8Array {
  const { records } = engine.file.header
  const bits = emptyBits(records)
  terms.forEach(({ list }, i) => {
    const has = i === 0 ? bits : emptyBits(records)
    markList(has, list, 0, records)
    if (i > 0) intersect(bits, has)
  })
  if (eligible) intersect(bits, eligible)
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
  /** By word of the phrase: whether it is at the current position, and whether the phrase up to it ends there. */
  const isHere = terms.map(() => false)
  const isReached = terms.map(() => false)
  const last = terms.length - 1
  let isHeld = false
  let current = -1
  const endPosition = () => {
    for (let i = last; i >= 0; i--) {
      isReached[i] = isHere[i]! && (i === 0 || isReached[i - 1]!)
      isHere[i] = false
    }
    isHeld ||= isReached[last]!
  }
  analyzer.analyzeField(text, field, (term, position) => {
    if (position !== current) endPosition()
    current = position
    // One position may have several terms: a name and its parts.
    for (let i = 0; i <= last; i++) if (terms[i] === term) isHere[i] = true
  })
  endPosition()
  return isHeld
}
