/** Finds the records that hold a phrase: its words, in any of their forms, next to each other in one field. */

import type { Analyzer, QueryPhrase, TextField } from '../contract.ts'
import { postingsPerBlock, textFields } from '../format.ts'
import { PositionWalk, placesPerField, readPositions } from '../reader/positions.ts'
import { fieldsOfPosting, PostingBlocks } from '../reader/postings.ts'
import { readRecord, wholeRecord } from '../reader/records.ts'
import { textOf } from '../reader/text.ts'
import { emptyBits, intersect, listed, markList } from './bits.ts'
import { type Engine, type LoadedTerm, loadTerm } from './engine.ts'

interface PlacedTerm {
  term: string
  list: LoadedTerm
  /** Which word of the phrase it is. */
  index: number
}

/** A bit for each such record. */
export function phraseRecords(engine: Engine, phrase: QueryPhrase): Uint8Array {
  const bits = emptyBits(engine.file.header.records)
  const terms: PlacedTerm[] = []
  for (const [index, { terms: forms }] of phrase.words.entries()) {
    const { term } = forms[0]!
    const list = loadTerm(engine, term)
    if (!list) return bits
    terms.push({ term, list, index })
  }
  const [rarest, ...others] = terms.sort((a, b) => a.list.count - b.list.count)
  if (others.length === 0) {
    markList(bits, rarest!.list, 0, engine.file.header.records)
    return bits
  }
  const isPlaced = engine.file.header.hasPositions && rarest!.list.count > postingsPerBlock
  return isPlaced ? byPositions(engine, rarest!, others) : byTexts(engine, terms)
}

/** Where the phrase would begin, as far as its words are known: records rise, and places within a record. */
interface Beginnings {
  records: Uint32Array
  places: Uint32Array
  count: number
}

function byPositions(engine: Engine, rarest: PlacedTerm, others: readonly PlacedTerm[]): Uint8Array {
  const beginnings = beginningsOf(engine, rarest)
  for (const term of others) keepThoseFollowedBy(engine, term, beginnings)
  const bits = emptyBits(engine.file.header.records)
  for (let i = 0; i < beginnings.count; i++) {
    const record = beginnings.records[i]!
    bits[record >> 3]! |= 1 << (record & 7)
  }
  return bits
}

function beginningsOf(engine: Engine, { list, index }: PlacedTerm): Beginnings {
  const bytes = readPositions(engine.file, list.end)
  const walk = new PositionWalk(bytes)
  const blocks = new PostingBlocks(list, engine.file.header.records)
  // An entry takes at least one byte.
  const found = { records: new Uint32Array(bytes.length), places: new Uint32Array(bytes.length), count: 0 }
  for (let n = blocks.next(); n > 0; n = blocks.next()) addBlock(found, list.bytes, blocks, n, walk, index)
  return found
}

/** A function for each block is called often, so that V8 compiles it early in a process that lives for one search. */
function addBlock(
  beginnings: Beginnings,
  bytes: Buffer,
  { numbers, fieldsAt }: PostingBlocks,
  n: number,
  walk: PositionWalk,
  index: number,
): void {
  const { records, places } = beginnings
  let { count } = beginnings
  for (let i = 0; i < n; i++) {
    const found = walk.next(fieldsOfPosting(bytes, fieldsAt, i))
    for (let p = 0; p < found; p++) {
      const place = walk.places[p]!
      if (place % placesPerField < index) continue
      records[count] = numbers[i]!
      places[count++] = place - index
    }
  }
  beginnings.count = count
}

function keepThoseFollowedBy(engine: Engine, { list, index }: PlacedTerm, beginnings: Beginnings): void {
  const walk = new PositionWalk(readPositions(engine.file, list.end))
  const blocks = new PostingBlocks(list, engine.file.header.records)
  const at = { next: 0, kept: 0 }
  for (let n = blocks.next(); n > 0; n = blocks.next()) {
    keepOfBlock(beginnings, at, list.bytes, blocks, n, walk, index)
  }
  beginnings.count = at.kept
}

/** Both rise, so one walk through each does. `at`: the beginning that is looked at next, and how many were kept. */
function keepOfBlock(
  { records, places, count }: Beginnings,
  at: { next: number; kept: number },
  bytes: Buffer,
  { numbers, fieldsAt }: PostingBlocks,
  n: number,
  walk: PositionWalk,
  index: number,
): void {
  let { next, kept } = at
  for (let i = 0; i < n; i++) {
    const record = numbers[i]!
    const found = walk.next(fieldsOfPosting(bytes, fieldsAt, i))
    while (next < count && records[next]! < record) next++
    for (let p = 0; p < found && next < count && records[next] === record; ) {
      const difference = walk.places[p]! - index - places[next]!
      if (difference === 0) {
        records[kept] = record
        places[kept++] = places[next]!
      }
      if (difference <= 0) p++
      if (difference >= 0) next++
    }
  }
  at.next = next
  at.kept = kept
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
