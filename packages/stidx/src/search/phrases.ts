/** Words that must stand side by side in; a bit for each record in which they do out, found in the stored text. */

import type { Analyzer, QueryPhrase, QueryWord, TextField } from '../contract.ts'
import { textFields } from '../format.ts'
import { readRecord, wholeRecord } from '../reader/records.ts'
import { textOf } from '../reader/text.ts'
import type { Engine } from './engine.ts'
import { intersect, listed } from './filters.ts'
import { loadTerms } from './words.ts'

export function phraseRecords(engine: Engine, phrase: QueryPhrase): Uint8Array {
  const { kernel } = engine
  let bits: Uint8Array | null = null
  for (const word of phrase.words) {
    const lists = loadTerms(engine, word.terms)
    const next = kernel.allocateBits()
    for (const { list } of lists) kernel.mark(list, true, 0, next.byteOffset)
    if (bits) intersect(next, kernel.view(bits.byteOffset, bits.length))
    bits = next
  }
  if (!bits) return kernel.allocateBits()
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
