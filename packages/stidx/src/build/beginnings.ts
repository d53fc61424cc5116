/** Writes lists of their own for broad beginnings, as a search of the finished index would join them. */

import type { Analyzer } from '../contract.ts'
import type { Section } from '../format.ts'
import { openIndexFile } from '../reader/file.ts'
import { createTree } from '../reader/tree.ts'
import { Group } from '../search/group.ts'
import { joinPrefix } from '../search/prefixes.ts'
import { ByteWriter } from './byte-writer.ts'
import type { FileSink } from './file-sink.ts'
import type { Impacts } from './impacts.ts'
import { type EncodedList, ListEncoder, packScore } from './posting-list.ts'
import { writeEntry } from './terms.ts'
import { TreeWriter } from './tree-writer.ts'

export interface BeginningsInput {
  /** The index without them, whole and readable; `sink` appends to it. */
  file: string
  sink: FileSink
  analyzer: Analyzer
  impacts: Impacts
  /** Rising UTF-8 bytes, one character each. */
  beginnings: readonly string[]
  /** Now and then, when much memory has become garbage. */
  onSpill(): void
}

export function writeBeginnings(input: BeginningsInput): { joined: Section; beginnings: Section } {
  const { sink, beginnings, impacts } = input
  const pages: Buffer[] = []
  const tree = new TreeWriter({ write: (page) => pages.push(Buffer.from(page)) }, 'beginnings')
  const value = new ByteWriter(256)
  const at = sink.position()
  eachList(input, beginnings, (beginning, list, count) => {
    value.length = 0
    writeEntry(value, count, list, impacts, { postings: sink, postingsAt: at })
    tree.add(beginning, value.written())
  })
  const root = tree.finish()
  const pagesAt = sink.position()
  for (const page of pages) sink.write(page)
  return {
    joined: { offset: at, length: pagesAt - at, count: 0, root: 0 },
    beginnings: { offset: pagesAt, length: sink.position() - pagesAt, count: pages.length, root },
  }
}

/** Bytes of lists between two calls of `onSpill`. */
const bytesPerSpill = 1 << 23

/** The list is valid until the next one. */
function eachList(
  { file, analyzer, onSpill }: BeginningsInput,
  beginnings: readonly string[],
  visit: (beginning: string, list: EncodedList, count: number) => void,
): void {
  const index = openIndexFile(file, analyzer)
  let read = bytesPerSpill
  try {
    const lexicon = { file: index, tree: createTree(index), analyzer }
    const encoder = new ListEncoder()
    const group = new Group(index.header.records)
    const scores = new Uint16Array(index.header.records)
    for (const beginning of beginnings) {
      joinPrefix(lexicon, Buffer.from(beginning, 'latin1').toString('utf8'), group, (bytes) => {
        read += bytes
        if (read < bytesPerSpill) return
        onSpill()
        read = 0
      })
      const records = group.inOrder()
      for (let i = 0; i < records.length; i++) {
        const record = records[i]!
        scores[record] = packScore(group.impactOf(record), group.fieldsOf(record))
      }
      visit(beginning, encoder.encode(records, scores), records.length)
      group.clear()
    }
  } finally {
    index.close()
  }
}
