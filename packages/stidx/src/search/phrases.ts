/** Finds the records that hold a phrase: its words next to each other in one field, as the stored text has them. */

import type { Analyzer, QueryPhrase, QueryWord, TextField } from '../contract.ts'
import { textFields } from '../format.ts'
import { readRecord, wholeRecord } from '../reader/records.ts'
import { textOf } from '../reader/text.ts'
import { listed } from './bits.ts'
import type { Engine } from './engine.ts'
import { wordsRecords } from './words.ts'

/** A bit for each such record. */
export function phraseRecords(engine: Engine, phrase: QueryPhrase): Uint8Array {
  const bits = wordsRecords(engine, phrase.words, 0)
  for (const record of listed(bits, Number.POSITIVE_INFINITY).first) {
    if (!holdsPhrase(engine, record, phrase)) bits[record >> 3]! &= ~(1 << (record & 7))
  }
  return bits
}

function holdsPhrase({ file, analyzer }: Engine, record: number, phrase: QueryPhrase): boolean {
  const source = wholeRecord(readRecord(file, record))
  return textFields.some((field) => fieldHolds(analyzer, textOf(source, field), field, phrase.words))
}

function fieldHolds(
  analyzer: Analyzer,
  text: string,
  field: TextField,
  words: readonly QueryWord[],
): boolean {
  if (text === '') return false
  // One position may have several terms: a name and its parts.
  const positions: Set<string>[] = []
  analyzer.analyzeField(text, field, (term, position, surface) => {
    positions[position] ??= new Set()
    positions[position].add(surface === '' ? term : surface)
  })
  for (let start = 0; start + words.length <= positions.length; start++) {
    if (words.every((word, i) => isAt(word, positions[start + i]!))) return true
  }
  return false
}

/** As written where the word is known as written; else by its base term. */
function isAt({ surface, terms }: QueryWord, position: ReadonlySet<string>): boolean {
  return position.has(surface === '' ? (terms[0]?.term ?? '') : surface)
}
