/** Merged runs in; the sections of posting lists, of the tree of terms and of deletions out. */

import { deletionsOf, hasDeletions } from '../deletions.ts'
import { inlineBytesMax, surfacePrefix, valuePrefix } from '../format.ts'
import { ByteWriter } from './byte-writer.ts'
import { replaced } from './catalogue.ts'
import { crc32 } from './checksum.ts'
import type { FileSink } from './file-sink.ts'
import type { Impacts } from './impacts.ts'
import { type MergedTerm, mergeRuns } from './merge.ts'
import type { PairSorter } from './pairs.ts'
import { type EncodedList, ListEncoder, packPosting } from './posting-list.ts'
import { fieldsOf } from './runs.ts'
import { TreeWriter } from './tree-writer.ts'

export interface TermsInput {
  runs: readonly string[]
  /** Number in the index of each record as it came, or `replaced`. */
  numberOf: Uint32Array
  impacts: Impacts
  /** Receives posting lists. */
  postings: FileSink
  /** Its position where the first list goes. */
  postingsAt: number
  /** Receives the pages of the tree. */
  tree: FileSink
  deletions: PairSorter
  /** Now and then: much of what was held is not needed any more. */
  onSpill(): void
}

/** Between two calls of `onSpill`. */
const termsPerSpill = 1 << 15

export interface TermsReport {
  terms: number
  surfaces: number
  postings: number
  pages: number
  root: number
}

export function writeTerms(input: TermsInput): TermsReport {
  const { impacts, deletions } = input
  const report = { terms: 0, surfaces: 0, postings: 0 }
  const tree = new TreeWriter(input.tree)
  const encoder = new ListEncoder()
  const gatherer = new Gatherer(input.numberOf, impacts)
  const value = new ByteWriter(256)
  let visited = 0
  mergeRuns(input.runs, (term) => {
    if (visited++ % termsPerSpill === 0) input.onSpill()
    value.length = 0
    if (term.key.startsWith(surfacePrefix)) {
      value.varint(term.count)
      const place = tree.add(term.key, value.written())
      report.surfaces++
      addDeletions(deletions, term.key, place)
      return
    }
    const gathered = gatherer.gather(term)
    if (gathered.length === 0) return
    const scored = !term.key.startsWith(valuePrefix)
    const list = encoder.encode(gathered, scored)
    value.varint(gathered.length)
    if (scored) {
      value.u16(impacts.weightOf(gathered.length))
      value.u8(list.impactMax)
    }
    placeList(value, list, input)
    tree.add(term.key, value.written())
    report.terms++
    report.postings += gathered.length
  })
  const root = tree.finish()
  return { ...report, pages: tree.pages, root }
}

/** A short list stands in the page of its term, a longer one in a section of its own, by place and checksum. */
function placeList(value: ByteWriter, list: EncodedList, { postings, postingsAt }: TermsInput): void {
  value.varint(list.bytes.length)
  if (list.bytes.length <= inlineBytesMax) {
    value.append(list.bytes)
  } else {
    value.varint(postings.position() - postingsAt)
    value.u32(crc32(list.bytes))
    postings.write(list.bytes)
  }
}

function addDeletions(deletions: PairSorter, key: string, place: number): void {
  const surface = Buffer.from(key.slice(surfacePrefix.length), 'latin1').toString('utf8')
  if (!hasDeletions(surface)) return
  for (const variant of deletionsOf(surface)) deletions.add(crc32(variant), place)
}

/** Joins the lists of the runs, under the numbers of the index. */
class Gatherer {
  readonly #numberOf: Uint32Array
  readonly #impacts: Impacts
  #postings = new Float64Array(1 << 10)

  constructor(numberOf: Uint32Array, impacts: Impacts) {
    this.#numberOf = numberOf
    this.#impacts = impacts
  }

  /** Packed and by rising record; valid until the next call. */
  gather(term: MergedTerm): Float64Array {
    if (term.count > this.#postings.length) this.#postings = new Float64Array(Math.ceil(term.count * 1.2))
    let count = 0
    for (const list of term.lists) count = this.#readList(list, count)
    const gathered = this.#postings.subarray(0, count)
    return isRising(gathered) ? gathered : gathered.sort()
  }

  #readList(list: { count: number; bytes: Buffer }, countBefore: number): number {
    const { bytes } = list
    let count = countBefore
    let at = 0
    let record = -1
    for (let i = 0; i < list.count; i++) {
      let distance = 0
      let shift = 0
      let byte = 0
      do {
        byte = bytes[at++]!
        distance |= (byte & 127) << shift
        shift += 7
      } while (byte > 127)
      record += distance + 1
      const fields = bytes[at++]!
      let frequencies = 0
      for (let field = 0; field < 4; field++) {
        if (!(fields & (1 << field))) continue
        frequencies |= (fields & 16 ? 1 : bytes[at++]!) << (field * 8)
      }
      const number = this.#numberOf[record]!
      if (number === replaced) continue
      const isValue = frequencies === 0
      const impact = isValue ? 0 : this.#impacts.impactOf(record, frequencies)
      this.#postings[count++] = packPosting(number, impact, isValue ? 0 : fieldsOf(frequencies))
    }
    return count
  }
}

function isRising(numbers: Float64Array): boolean {
  for (let i = 1; i < numbers.length; i++) if (numbers[i]! < numbers[i - 1]!) return false
  return true
}
