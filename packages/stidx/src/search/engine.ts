/** What the steps of a search share: the open file, its tree of terms, the kernel, and lists on their way into it. */

import type { Analyzer } from '../contract.ts'
import { badIndex } from '../fault.ts'
import type { Kernel, LoadedList } from '../kernel/kernel.ts'
import type { IndexFile } from '../reader/file.ts'
import { findTerm, type TermEntry } from '../reader/terms.ts'
import type { Tree } from '../reader/tree.ts'

export interface Engine {
  file: IndexFile
  tree: Tree
  kernel: Kernel
  analyzer: Analyzer
}

export interface LoadedTerm extends LoadedList {
  /** Of the term in a score, in 1/1024. */
  weight: number
}

/** Puts the list of a term into the kernel's memory; null where no record has the term. */
export function loadTerm(engine: Engine, term: string): LoadedTerm | null {
  const entry = findTerm(engine.tree, term)
  return entry && loadList(engine, entry)
}

function loadList({ file, kernel }: Engine, entry: TermEntry): LoadedTerm {
  const { count, length, weight } = entry
  const rangeEnd = entry.offset + length
  if (count > file.header.records || (!entry.inline && rangeEnd > file.header.sections.postings.length)) {
    throw badIndex('is damaged (terms)')
  }
  const bytes = kernel.allocate(length)
  if (entry.inline) {
    bytes.set(entry.inline)
  } else {
    file.read('postings', entry.offset, length, bytes)
    if (kernel.checksumOf(bytes) !== entry.checksum) throw badIndex('is damaged (postings)')
  }
  return { at: bytes.byteOffset, length, count, weight }
}
