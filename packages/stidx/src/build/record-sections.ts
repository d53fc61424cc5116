/** Writes the sections of the records, of their places and of their keys. */

import { offsetBytes, offsetPageBytes, offsetsPerPage, placeMark } from '../format.ts'
import type { Catalogue } from './catalogue.ts'
import { placedSum } from './checksum.ts'
import type { FileSink } from './file-sink.ts'
import { openFileSource } from './file-source.ts'
import { PairSorter } from './pairs.ts'

/** Records are copied in pieces: one may have many megabytes. */
const pieceBytes = 1 << 16

interface Collected {
  folder: string
  catalogue: Catalogue
  recordsFile: string
  recordsBytes: number
}

/** Copies those that were not replaced; returns the place of each in the section, by its number as it came. */
export function copyRecords(sink: FileSink, collected: Collected): Float64Array {
  const { catalogue, recordsFile, recordsBytes } = collected
  const places = new Float64Array(catalogue.count)
  const source = openFileSource(recordsFile)
  const before = sink.position()
  try {
    for (let record = 0; record < catalogue.count; record++) {
      const isReplaced = catalogue.isReplaced(record)
      const place = sink.position() - before
      places[record] = isReplaced ? 0 : place
      const length = catalogue.bytesOf(record, recordsBytes)
      for (let done = 0; done < length; done += pieceBytes) {
        const bytes = source.take(Math.min(length - done, pieceBytes))!
        if (isReplaced) continue
        // It was encoded before its place was known.
        if (done === 0) bytes.writeUInt32LE((bytes.readUInt32LE(0) ^ placeMark('records', place)) >>> 0, 0)
        sink.write(bytes)
      }
    }
  } finally {
    source.close()
  }
  return places
}

/** Six bytes a record in the order of the index, in pages with a checksum at the end of each. */
export function writeOffsets(sink: FileSink, order: Uint32Array, places: Float64Array): void {
  const page = Buffer.alloc(offsetPageBytes)
  for (let start = 0; start < order.length; start += offsetsPerPage) {
    page.fill(0)
    order.subarray(start, start + offsetsPerPage).forEach((record, i) => {
      page.writeUIntLE(places[record]!, i * offsetBytes, offsetBytes)
    })
    const sum = placedSum(page.subarray(0, offsetPageBytes - 4), 'offsets', start / offsetsPerPage)
    page.writeUInt32LE(sum, offsetPageBytes - 4)
    sink.write(page)
  }
}

/** Returns how many keys there are. */
export function writeKeys(sink: FileSink, { folder, catalogue }: Collected, order: Uint32Array): number {
  const keys = new PairSorter(folder, 'keys')
  order.forEach((record, number) => {
    const { id, slug, title } = catalogue.keysOf(record)
    keys.add(id, number)
    if (slug !== null) keys.add(slug, number)
    if (title !== null) keys.add(title, number)
  })
  keys.writePages(sink)
  return keys.count
}
