/** Words of records in, sorted runs of postings out: what does not fit into memory goes to a file and is merged later. */

import type { WordTerm } from '../contract.ts'
import { surfacePrefix, termBytesMax } from '../format.ts'
import { ByteWriter } from './byte-writer.ts'
import { openFileSink } from './file-sink.ts'
import { grown } from './growing.ts'

/** Postings held before a run is written: 12 bytes each, and as much again for what belongs to them. */
const postingsHeldMax = 1 << 20
/** Different terms, and surfaces, held before a run is written: a hundred bytes each. */
const termsHeldMax = 1 << 17
const none = 0xffffffff
let nextCollection = 1

/**
 * Collects postings and writes them out as runs. A run is a sequence of {u16 key length, key, u32 count, u32 bytes, list},
 * by rising key. A list is, for each record by rising number: varint of the distance to the one before, a byte of fields
 * (bit 4: every frequency is 1), else the frequencies of these fields. For a surface `count` is how often it was met.
 */
export class RunCollector {
  readonly files: string[] = []
  readonly #folder: string
  readonly #limit: number
  readonly #onSpill: () => void
  #terms = new Map<string, number>()
  #surfaces = new Map<string, number>()
  #surfaceCounts = new Uint32Array(1 << 14)
  #lastPosting = new Uint32Array(1 << 14)
  #termOf: Uint32Array
  #recordOf: Uint32Array
  #frequenciesOf: Uint32Array
  #count = 0
  /** Numbers that words carry from another run, or another build, are not ours. */
  #collection = nextCollection++

  constructor(folder: string, limit = postingsHeldMax, onSpill: () => void = () => {}) {
    this.#folder = folder
    this.#onSpill = onSpill
    this.#limit = limit
    const room = limit + (1 << 12)
    this.#termOf = new Uint32Array(room)
    this.#recordOf = new Uint32Array(room)
    this.#frequenciesOf = new Uint32Array(room)
  }

  /** One more time the term in a field (0 to 3) of a record; 4: the term stands for a value and has no frequency. */
  add(term: string, record: number, field: number): void {
    this.#addNumbered(this.#termNumber(term), record, field)
  }

  /** As `add`, with its surface; a word that comes again with its numbers needs no look-up. */
  addWord(word: WordTerm, record: number, field: number): void {
    if (word.collection !== this.#collection) {
      word.collection = this.#collection
      word.termNumber = isIndexable(word.term) ? this.#termNumber(word.term) : none
      word.surfaceNumber = isIndexable(word.surface) ? this.#surfaceNumber(word.surface) : none
    }
    if (word.termNumber !== none) this.#addNumbered(word.termNumber, record, field)
    if (word.surfaceNumber !== none) this.#surfaceCounts[word.surfaceNumber]!++
  }

  #termNumber(term: string): number {
    let number = this.#terms.get(term)
    if (number === undefined) {
      number = this.#terms.size
      this.#terms.set(term, number)
      this.#lastPosting = grown(this.#lastPosting, number)
      this.#lastPosting[number] = none
    }
    return number
  }

  #addNumbered(number: number, record: number, field: number): void {
    let posting = this.#lastPosting[number]!
    if (posting === none || this.#recordOf[posting] !== record) {
      posting = this.#push(number, record)
    }
    if (field > 3) return
    const shift = field * 8
    const frequencies = this.#frequenciesOf[posting]!
    if (((frequencies >>> shift) & 255) < 255) this.#frequenciesOf[posting] = frequencies + (1 << shift)
  }

  #surfaceNumber(surface: string): number {
    let number = this.#surfaces.get(surface)
    if (number === undefined) {
      number = this.#surfaces.size
      this.#surfaces.set(surface, number)
      this.#surfaceCounts = grown(this.#surfaceCounts, number)
      this.#surfaceCounts[number] = 0
    }
    return number
  }

  /** To be called between records: a record is never torn apart. */
  endRecord(): void {
    const isFull = this.#terms.size >= termsHeldMax || this.#surfaces.size >= termsHeldMax
    if (isFull || this.#count >= this.#limit) this.flush()
  }

  flush(): void {
    if (this.#count === 0 && this.#surfaces.size === 0) return
    const file = `${this.#folder}/run-${this.files.length}`
    const sink = openFileSink(file)
    try {
      this.#writeRun(sink.write)
      sink.flush()
    } finally {
      sink.close()
    }
    this.files.push(file)
    this.#terms = new Map()
    this.#surfaces = new Map()
    this.#count = 0
    this.#collection = nextCollection++
    this.#onSpill()
  }

  #push(term: number, record: number): number {
    const posting = this.#count++
    this.#termOf = grown(this.#termOf, posting)
    this.#recordOf = grown(this.#recordOf, posting)
    this.#frequenciesOf = grown(this.#frequenciesOf, posting)
    this.#termOf[posting] = term
    this.#recordOf[posting] = record
    this.#frequenciesOf[posting] = 0
    this.#lastPosting[term] = posting
    return posting
  }

  #writeRun(write: (bytes: Uint8Array) => void): void {
    const { starts, order } = this.#byTerm()
    const out = new ByteWriter()
    const list = new ByteWriter()
    const entry = (key: string, count: number) => {
      out.length = 0
      out.u16(key.length)
      out.latin1(key)
      out.u32(count)
      out.u32(list.length)
      write(out.written())
      write(list.written())
    }
    for (const [key, number, isSurface] of this.#sortedKeys()) {
      list.length = 0
      if (isSurface) {
        entry(key, this.#surfaceCounts[number]!)
      } else {
        const start = starts[number]!
        const end = starts[number + 1]!
        for (let i = start; i < end; i++) {
          const before = i === start ? -1 : this.#recordOf[order[i - 1]!]!
          this.#writePosting(list, order[i]!, before)
        }
        entry(key, end - start)
      }
    }
  }

  #writePosting(list: ByteWriter, posting: number, before: number): void {
    list.varint(this.#recordOf[posting]! - before - 1)
    const frequencies = this.#frequenciesOf[posting]!
    const fields = fieldsOf(frequencies)
    const allOnes = (frequencies & ~0x01010101) === 0
    list.u8(fields | (allOnes ? 16 : 0))
    if (allOnes) return
    for (let shift = 0; shift < 32; shift += 8) {
      const frequency = (frequencies >>> shift) & 255
      if (frequency > 0) list.u8(frequency)
    }
  }

  /** Postings came by rising record: counting them by term sorts them. */
  #byTerm(): { starts: Uint32Array; order: Uint32Array } {
    const starts = new Uint32Array(this.#terms.size + 1)
    for (let i = 0; i < this.#count; i++) starts[this.#termOf[i]! + 1]!++
    for (let term = 1; term < starts.length; term++) starts[term]! += starts[term - 1]!
    const next = starts.slice()
    const order = new Uint32Array(this.#count)
    for (let i = 0; i < this.#count; i++) order[next[this.#termOf[i]!]!++] = i
    return { starts, order }
  }

  #sortedKeys(): [key: string, number: number, isSurface: boolean][] {
    const keys: [string, number, boolean][] = []
    for (const [term, number] of this.#terms) keys.push([keyOf(term), number, false])
    for (const [surface, number] of this.#surfaces) keys.push([keyOf(surfacePrefix + surface), number, true])
    return keys.sort((a, b) => (a[0] < b[0] ? -1 : 1))
  }
}

/** The prefix of a surface takes one of the 255 bytes that a key may have. */
function isIndexable(term: string): boolean {
  if (term.length * 3 < termBytesMax) return term !== ''
  return Buffer.byteLength(term) < termBytesMax
}

/** Bit f: the frequency of field f, in byte f, is not 0. */
export function fieldsOf(frequencies: number): number {
  return (
    (frequencies & 0xff ? 1 : 0) |
    (frequencies & 0xff00 ? 2 : 0) |
    (frequencies & 0xff0000 ? 4 : 0) |
    (frequencies & 0xff000000 ? 8 : 0)
  )
}

/** The UTF-8 bytes as characters: in this form `<` compares as the bytes do. */
export function keyOf(text: string): string {
  return /^[\0-\x7f]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1')
}
