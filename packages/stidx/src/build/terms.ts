/** Writes the sections of posting lists, of the tree of terms and of deletions from the merged runs. */

import {
  inlineBytesMax,
  positionsHeadBytes,
  postingsPerBlock,
  surfacePrefix,
  valuePrefix,
} from '../format.ts'
import { BroadBeginnings } from './broad.ts'
import { ByteWriter } from './byte-writer.ts'
import { crc32, placedSum } from './checksum.ts'
import { eachDeletionHash } from './deletion-hashes.ts'
import type { FileSink } from './file-sink.ts'
import { Gatherer } from './gatherer.ts'
import type { Impacts } from './impacts.ts'
import type { PairSorter } from './pairs.ts'
import { type EncodedList, ListEncoder } from './posting-list.ts'
import type { EachTerm } from './runs.ts'
import { TreeWriter } from './tree-writer.ts'

interface ListPlace {
  /** Receives posting lists. */
  postings: FileSink
  /** Its position where the first list goes. */
  postingsAt: number
}

export interface TermsInput extends ListPlace {
  eachTerm: EachTerm
  /** Number in the index of each record as it came, or `replaced`. */
  numberOf: Uint32Array
  /** Bytes of each stored record, by its number in the index. */
  bytesOf: Uint32Array
  impacts: Impacts
  /** Receives the pages of the tree. */
  tree: FileSink
  deletions: PairSorter
  /** The work of joining the words of a beginning, in postings, from which on it is broad. */
  broadFrom: number
  /** Now and then, when much memory has become garbage. */
  onSpill(): void
}

/** Between two calls of `onSpill`. */
const termsPerSpill = 1 << 17

export interface TermsReport {
  terms: number
  surfaces: number
  postings: number
  pages: number
  root: number
  /** Whether a list of one block has positions. */
  hasShortPositions: boolean
  /** Broad ones, by rising bytes, one character each. */
  beginnings: string[]
}

export function writeTerms(input: TermsInput): TermsReport {
  const { impacts, deletions } = input
  const report = { terms: 0, surfaces: 0, postings: 0, hasShortPositions: false }
  const tree = new TreeWriter(input.tree, 'tree')
  const encoder = new ListEncoder()
  const gatherer = new Gatherer(input.numberOf, input.bytesOf, impacts)
  const value = new ByteWriter(256)
  const broad = new BroadBeginnings(input.broadFrom)
  let visited = 0
  input.eachTerm((term) => {
    if (visited++ % termsPerSpill === 0) input.onSpill()
    value.length = 0
    if (term.key.startsWith(surfacePrefix)) {
      value.varint(term.count)
      const place = tree.add(term.key, value.written())
      report.surfaces++
      const word = term.key.slice(surfacePrefix.length)
      broad.add(word, term.count)
      eachDeletionHash(word, (hash) => deletions.add(hash, place))
      return
    }
    const scored = !term.key.startsWith(valuePrefix)
    const records = gatherer.gather(term, scored)
    if (records.length === 0) return
    const list = encoder.encode(records, scored ? gatherer.scores : null)
    writeEntry(value, records.length, list, scored ? impacts : null, input)
    if (gatherer.hasPositions) {
      if (records.length <= postingsPerBlock) {
        value.varint(input.postings.position() - input.postingsAt)
        report.hasShortPositions = true
      }
      writePositions(gatherer.positionsOf(records), input)
    }
    tree.add(term.key, value.written())
    report.terms++
    report.postings += records.length
  })
  const root = tree.finish()
  return { ...report, pages: tree.pages, root, beginnings: broad.finish() }
}

/** Writes a list and what the tree says of it; values of fields have no `impacts`. */
export function writeEntry(
  value: ByteWriter,
  count: number,
  list: EncodedList,
  impacts: Impacts | null,
  place: ListPlace,
): void {
  value.varint(count)
  if (impacts) {
    value.u16(impacts.weightOf(count))
    value.u8(list.impactMax)
  }
  placeList(value, list, place)
}

/** Right behind the list of their term, unless that is in its page. */
function writePositions(positions: Buffer, { postings, postingsAt }: TermsInput): void {
  const head = Buffer.alloc(positionsHeadBytes)
  head.writeUInt32LE(positions.length, 0)
  head.writeUInt32LE(placedSum(positions, 'postings', postings.position() - postingsAt), 4)
  postings.write(head)
  postings.write(positions)
}

/** A short list is kept in the page of its term, a longer one in a section of its own, by place and checksum. */
function placeList(value: ByteWriter, list: EncodedList, { postings, postingsAt }: ListPlace): void {
  value.varint(list.bytes.length)
  if (list.bytes.length <= inlineBytesMax) {
    value.append(list.bytes)
  } else {
    value.varint(postings.position() - postingsAt)
    value.u32(crc32(list.bytes))
    postings.write(list.bytes)
  }
}
