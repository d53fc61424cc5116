/** Writes the index file from the collected records and runs: a header and the sections after it. */

import type { Analyzer } from '../contract.ts'
import {
  encodeHeader,
  headerBytes,
  k1Hundredths,
  noSection,
  type Section,
  type SectionName,
} from '../format.ts'
import { writeBeginnings } from './beginnings.ts'
import { type Catalogue, replaced } from './catalogue.ts'
import { type FileSink, openFileSink } from './file-sink.ts'
import { openFileSource } from './file-source.ts'
import { createImpacts, type Impacts } from './impacts.ts'
import { PairSorter } from './pairs.ts'
import { copyRecords, writeKeys, writeOffsets } from './record-sections.ts'
import type { EachTerm } from './runs.ts'
import { type TermsReport, writeTerms } from './terms.ts'

export interface Collected {
  /** Where temporary files may lie. */
  folder: string
  catalogue: Catalogue
  /** File of all encoded records, in the order in which they came. */
  recordsFile: string
  recordsBytes: number
  eachTerm: EachTerm
  analyzer: Analyzer
  /** Called while terms are merged, too. */
  onSpill(): void
  /** For tests: see `broadFromOf`. */
  broadFrom?: number | undefined
}

/** Writes the whole file to the disk; returns its length in bytes. */
export function writeIndex(file: string, collected: Collected): number {
  const sink = openFileSink(file)
  try {
    // The header comes last into its place: without it the file is no index.
    sink.write(Buffer.alloc(headerBytes))
    const { catalogue, analyzer } = collected
    const order = catalogue.order()
    const impacts = createImpacts(catalogue, order)
    const sections = { joined: noSection, beginnings: noSection } as Record<SectionName, Section>
    writeRecordSections(sink, collected, order, sections)
    const terms = writeTermSections(sink, collected, order, impacts, sections)
    const writeHeader = () =>
      sink.patch(
        encodeHeader({
          ...terms,
          fileBytes: sink.position(),
          records: order.length,
          fieldWords: impacts.fieldWords,
          k1Hundredths,
          analyzer: { id: analyzer.id, version: analyzer.version },
          sections,
        }),
        0,
      )
    writeHeader()
    const { beginnings } = terms
    if (beginnings.length > 0) {
      const { onSpill } = collected
      Object.assign(sections, writeBeginnings({ file, sink, analyzer, impacts, beginnings, onSpill }))
      writeHeader()
    }
    sink.sync()
    return sink.position()
  } finally {
    sink.close()
  }
}

function writeRecordSections(
  sink: FileSink,
  collected: Collected,
  order: Uint32Array,
  sections: Record<SectionName, Section>,
): void {
  const offsets = copyRecords(sink, collected)
  sections.records = sectionSince(sink, headerBytes, order.length)
  const offsetsAt = sink.position()
  writeOffsets(sink, order, offsets)
  sections.offsets = sectionSince(sink, offsetsAt, order.length)
  const keysAt = sink.position()
  const keys = writeKeys(sink, collected, order)
  sections.keys = sectionSince(sink, keysAt, keys)
}

/** Posting lists go straight into the file; the tree that grows meanwhile waits in one of its own. */
function writeTermSections(
  sink: FileSink,
  collected: Collected,
  order: Uint32Array,
  impacts: Impacts,
  sections: Record<SectionName, Section>,
): TermsReport {
  const { folder, catalogue, recordsBytes, eachTerm, onSpill } = collected
  const { broadFrom = broadFromOf(order.length) } = collected
  const numberOf = numbersOf(catalogue, order)
  const bytesOf = order.map((record) => catalogue.bytesOf(record, recordsBytes))
  const deletions = new PairSorter(folder, 'deletions')
  const treeFile = `${folder}/tree`
  const tree = openFileSink(treeFile)
  const postingsAt = sink.position()
  let terms: TermsReport
  try {
    const postings = { postings: sink, postingsAt }
    const records = { numberOf, bytesOf, impacts }
    terms = writeTerms({ ...postings, ...records, eachTerm, tree, deletions, broadFrom, onSpill })
    tree.flush()
  } finally {
    tree.close()
  }
  sections.postings = sectionSince(sink, postingsAt, 0)
  const treeAt = sink.position()
  copyFile(sink, treeFile)
  sections.tree = { ...sectionSince(sink, treeAt, terms.pages), root: terms.root }
  const deletionsAt = sink.position()
  deletions.writePages(sink)
  sections.deletions = sectionSince(sink, deletionsAt, deletions.count)
  return terms
}

/**
 * From how much work on the words of a beginning are joined ahead. It grows with the records, so that all these lists
 * together stay a small share of the file.
 */
function broadFromOf(records: number): number {
  return Math.max(broadFromMin, postingsPerRecordMax * records)
}

const broadFromMin = 1 << 21
const postingsPerRecordMax = 2

function sectionSince(sink: FileSink, offset: number, count: number): Section {
  return { offset, length: sink.position() - offset, count, root: 0 }
}

/** Number in the index of each record by its number as it came. */
function numbersOf(catalogue: Catalogue, order: Uint32Array): Uint32Array {
  const numbers = new Uint32Array(catalogue.count).fill(replaced)
  order.forEach((record, number) => {
    numbers[record] = number
  })
  return numbers
}

function copyFile(sink: FileSink, file: string): void {
  const source = openFileSource(file)
  try {
    // Pages have one length, so the end of the file is the end of a page.
    for (let page = source.take(2048); page; page = source.take(2048)) sink.write(page)
  } finally {
    source.close()
  }
}
