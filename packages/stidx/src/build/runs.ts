/** Collects the terms of all records with their postings; what does not fit into memory is written to sorted runs. */

import type { Analyzer } from '../contract.ts'
import { surfacePrefix, termBytesMax, valuePrefix, valueSeparator } from '../format.ts'
import { ByteWriter } from './byte-writer.ts'
import { openFileSink } from './file-sink.ts'
import { KeyTable, noKey } from './keys.ts'
import { type MergedTerm, mergeRuns } from './merge.ts'
import { Postings } from './postings.ts'
import { WordCounter } from './words.ts'

/** Bytes of posting lists held before a run is written. */
const listBytesMax = 31 * 2 ** 20
/** Different keys, and words as they are written, held before a run is written: some 70 and 60 bytes each. */
const keysMax = 9 << 15
const wordsMax = 3 << 16
/** Most values whose keys are remembered: for one field, and for all. */
const valuesOfFieldMax = 1 << 12
const valuesHeldMax = 1 << 14

/** Visits all terms by rising key. */
export type EachTerm = (visit: (term: MergedTerm) => void) => void

/** A run is a sequence of {u16 key length, key, u32 count, u32 bytes, u32 bytes of positions, list, positions}, by rising key; `postings.ts` describes both. */
export class RunCollector {
  readonly #folder: string
  readonly #limit: number
  readonly #onSpill: () => void
  readonly #files: string[] = []
  readonly #keys = new KeyTable()
  readonly #postings = new Postings()
  readonly #words: WordCounter
  readonly #analyzer: Analyzer
  /** Keys of the values that came first, by field: most come again and again. */
  readonly #values = new Map<string, Map<string, number>>()
  #valuesHeld = 0

  constructor(folder: string, analyzer: Analyzer, limit = listBytesMax, onSpill: () => void = () => {}) {
    this.#folder = folder
    this.#limit = limit
    this.#onSpill = onSpill
    this.#analyzer = analyzer
    this.#words = new WordCounter(analyzer, this.#keyOf.bind(this), this.#postings)
  }

  /** The words of a field (0 to 3) of a record, in names with their exact forms; returns the number of positions. */
  addText(text: string, record: number, field: number, isName: boolean): number {
    return this.#words.add(text, record, field, isName)
  }

  /** A value of a field that has no words; one too long for a key cannot be filtered by. */
  addValue(field: string, value: string, record: number): void {
    const known = this.#values.get(field)?.get(value)
    const key = known ?? this.#valueKey(field, value)
    if (key !== noKey) this.#postings.addValue(key, record)
    if (known === undefined && this.#valuesHeld < valuesHeldMax) this.#remember(field, value, key)
  }

  /** To be called between records: a record is never torn apart. */
  endRecord(): void {
    const { filled } = this.#postings
    if (filled >= this.#limit || this.#keys.count >= keysMax || this.#words.count >= wordsMax) this.#spill()
  }

  /** To be called once, after the last record. */
  finish(): EachTerm {
    if (this.#files.length === 0) return this.#ownTerms()
    this.#spill()
    return termsOf(this.#files)
  }

  #ownTerms(): EachTerm {
    return (visit) => this.#eachTerm(visit)
  }

  #keyOf(prefix: string, text: string, bytesMax: number): number {
    this.#keys.put(prefix)
    this.#keys.put(text)
    const { count } = this.#keys
    const key = this.#keys.end(bytesMax)
    if (key === count) this.#postings.begin(key)
    return key
  }

  #valueKey(field: string, value: string): number {
    this.#keys.put(valuePrefix)
    this.#keys.put(field)
    return this.#keyOf(valueSeparator, this.#analyzer.fold(value), termBytesMax)
  }

  #remember(field: string, value: string, key: number): void {
    const values = this.#values.get(field) ?? new Map<string, number>()
    if (values.size === valuesOfFieldMax) return
    this.#values.set(field, values)
    values.set(value, key)
    this.#valuesHeld++
  }

  #spill(): void {
    const file = `${this.#folder}/run-${this.#files.length}`
    const sink = openFileSink(file)
    const head = new ByteWriter(512)
    try {
      this.#eachTerm(({ key, count, lists }) => {
        head.length = 0
        head.u16(key.length)
        head.latin1(key)
        head.u32(count)
        const { bytes, positions } = lists[0]!
        head.u32(bytes.length)
        head.u32(positions.length)
        sink.write(head.written())
        sink.write(bytes)
        sink.write(positions)
      })
      sink.flush()
    } finally {
      sink.close()
    }
    this.#files.push(file)
    this.#keys.forget()
    this.#postings.forget()
    this.#words.forget()
    this.#values.clear()
    this.#valuesHeld = 0
    this.#onSpill()
  }

  #eachTerm(visit: (term: MergedTerm) => void): void {
    const surfaces = new Uint32Array(this.#keys.count)
    this.#words.addSurfaces(surfaces)
    const list = new ByteWriter()
    const positions = new ByteWriter()
    for (const number of this.#keys.order()) {
      const key = this.#keys.textOf(number)
      list.length = 0
      positions.length = 0
      const isSurface = key.startsWith(surfacePrefix)
      const count = isSurface ? surfaces[number]! : this.#postings.writeList(number, list)
      if (!isSurface) this.#postings.writePositions(number, positions)
      visit({ key, count, lists: [{ count, bytes: list.written(), positions: positions.written() }] })
    }
  }
}

/** Made here, where it holds nothing of the collector: its memory is needed for the merging. */
function termsOf(files: readonly string[]): EachTerm {
  return (visit) => mergeRuns(files, visit)
}
