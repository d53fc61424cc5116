/** Joins the posting lists of all words that begin alike. */

import { surfacePrefix } from '../format.ts'
import { decodeEntry, findTerm, type TermEntry } from '../reader/terms.ts'
import { type Engine, loadEntry } from './engine.ts'
import type { Group } from './group.ts'

/** The parts of an engine that are needed: the builder has no more. */
export type Lexicon = Pick<Engine, 'file' | 'tree' | 'analyzer'>

/** Adds every record that holds a word of the lexicon with this beginning; `onList` is called after each list. */
export function joinPrefix(
  lexicon: Lexicon,
  prefix: string,
  group: Group,
  onList: (bytes: number) => void = () => {},
): void {
  const { tree, analyzer } = lexicon
  const terms = new Set<string>()
  tree.visitPrefix(Buffer.from(surfacePrefix + prefix, 'utf8'), (entry) => {
    const base = analyzer.termsOf(entry.text(surfacePrefix.length))[0]
    if (base) terms.add(base.term)
    return true
  })
  const add = (entry: TermEntry) => {
    group.add(loadEntry(lexicon, entry))
    onList(entry.length)
  }
  // Most stems begin as their words do: one walk finds these sooner than a look-up for each of thousands.
  tree.visitPrefix(Buffer.from(prefix, 'utf8'), (entry) => {
    if (terms.delete(entry.text(0))) add(decodeEntry(entry.value(), false))
    return terms.size > 0
  })
  for (const term of terms) {
    const entry = findTerm(tree, term)
    if (entry) add(entry)
  }
}
