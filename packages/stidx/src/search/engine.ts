/** The shared state of a search: the open file, its tree of terms, the scores, and how posting lists are loaded. */

import type { Analyzer } from '../contract.ts'
import { badIndex } from '../fault.ts'
import { postingsPerBlock, valuePrefix } from '../format.ts'
import type { IndexFile } from '../reader/file.ts'
import type { PostingList } from '../reader/postings.ts'
import { findTerm, type TermEntry } from '../reader/terms.ts'
import type { Tree } from '../reader/tree.ts'
import type { Scores } from './scores.ts'

export interface Engine {
  file: IndexFile
  tree: Tree
  /** The tree of broad beginnings, whose words have one list together. */
  beginnings: Tree
  scores: Scores
  analyzer: Analyzer
  /** Lists of terms that this search has read; filters and ranking share them. */
  lists: Map<string, LoadedTerm | null>
}

export interface LoadedTerm extends PostingList {
  /** The term's weight in a score, in 1/1024. */
  weight: number
  /** Where its positions are in the section of postings; null where it has none. */
  positionsAt: number | null
}

/** The weight of a list in a search for a word, from its percentage of the word's weight. */
export function weightShare({ weight }: LoadedTerm, percent: number): number {
  return Math.max(1, Math.floor((weight * percent) / 100))
}

/** Where lists are: those of terms, or those of beginnings. */
export type ListSection = 'postings' | 'joined'

/** Reads the list of a term; null where no record has the term. */
export function loadTerm(engine: Engine, term: string): LoadedTerm | null {
  const known = engine.lists.get(term)
  if (known !== undefined) return known
  const entry = findTerm(engine.tree, term)
  const list = entry && loadEntry(engine, entry, 'postings', !term.startsWith(valuePrefix))
  engine.lists.set(term, list)
  return list
}

export function loadEntry(
  { file }: Pick<Engine, 'file'>,
  entry: TermEntry,
  section: ListSection = 'postings',
  hasImpacts = true,
): LoadedTerm {
  const { count, length, weight, inline, offset, positionsAt } = entry
  if (count > file.header.records || (!inline && offset + length > file.header.sections[section].length)) {
    throw badIndex('is damaged (terms)')
  }
  const bytes = inline ?? file.read(section, offset, length)
  if (!inline && file.checksum(bytes) !== entry.checksum) throw badIndex('is damaged (postings)')
  return {
    bytes,
    count,
    weight,
    hasImpacts,
    positionsAt: file.header.hasPositions ? (positionsAt ?? behindList(count, offset + length)) : null,
  }
}

/** Positions of a list of more than one block follow it; none is that long in the page of its term. */
function behindList(count: number, end: number): number | null {
  return count > postingsPerBlock ? end : null
}
