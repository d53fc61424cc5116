/**
 * Opens an index file for searches, records by id and statistics. Opening reads 512 bytes, whatever
 * its size.
 */

import { basename } from 'node:path'
import { analyzer as ours } from './analysis/analyzer.ts'
import type { Analyzer, IndexStats, LocalIndex, SearchAnswer, SearchOptions } from './contract.ts'
import { badIndex, SearchFault } from './fault.ts'
import { type Header, layoutVersion, magic, textFields } from './format.ts'
import { type IndexFile, openIndexFile } from './reader/file.ts'
import { wholeRecord } from './reader/records.ts'
import { createTree } from './reader/tree.ts'
import type { Engine } from './search/engine.ts'
import { recordWithId } from './search/exact.ts'
import { Scores } from './search/scores.ts'
import { search } from './search/search.ts'

/** @throws SearchFault that names the file, here and from every method: it is no index, or damaged. */
export function openIndex(file: string, analyzer: Analyzer = ours): LocalIndex {
  const open = named(file, () => openIndexFile(file, analyzer))
  // Made at the first search: a look-up by id needs none.
  let idle: Engine | null = null
  return {
    search: (query: string, options: SearchOptions = {}) =>
      named(file, (): SearchAnswer => {
        const engine = idle ?? createEngine(open, analyzer)
        // After a fault the scores are in no known state.
        idle = null
        const answer = search(engine, query, options)
        idle = engine
        return answer
      }),
    get: (id: string) =>
      named(file, () => {
        const record = recordWithId(open, id)
        return record && wholeRecord(record)
      }),
    stats: () => statsOf(open.header),
    close: open.close,
  }
}

function createEngine(file: IndexFile, analyzer: Analyzer): Engine {
  const tree = createTree(file)
  const beginnings = createTree(file, 'beginnings')
  return { file, tree, beginnings, scores: new Scores(file.header.records), analyzer, lists: new Map() }
}

function statsOf(header: Header): IndexStats {
  const { analyzer, sections, fileBytes, records, terms, surfaces, postings, fieldWords } = header
  return {
    format: magic,
    layout: layoutVersion,
    records,
    terms,
    lexicon: surfaces,
    postings,
    words: Object.fromEntries(textFields.map((field, i) => [field, fieldWords[i]!])),
    bytes: fileBytes,
    sections: Object.fromEntries(Object.entries(sections).map(([name, { length }]) => [name, length])),
    analyzer,
  }
}

/** Puts the file's name before the message of a fault; a RangeError comes from reading wild bytes. */
function named<T>(file: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (error instanceof SearchFault && error.code === 'bad_index') {
      throw badIndex(`${basename(file)} ${error.message}`)
    }
    if (error instanceof RangeError) throw badIndex(`${basename(file)} is damaged`)
    throw error
  }
}
