/** Writes the posting list of one term as the index file has it. */

import { postingsPerBlock } from '../format.ts'
import { ByteWriter } from './byte-writer.ts'

/** A posting's score: impact << 4 | fields of the term in a record. */
export function packScore(impact: number, fields: number): number {
  return impact * 16 + fields
}

export interface EncodedList {
  bytes: Buffer
  impactMax: number
}

/** Encodes lists one after the other; what it returns is valid until the next one. */
export class ListEncoder {
  readonly #blocks = new ByteWriter(1 << 16)
  readonly #out = new ByteWriter(1 << 16)

  /** `records` rise; `scores`, by record, are to be written, too, where there are any. */
  encode(records: Uint32Array, scores: Uint16Array | null): EncodedList {
    const blocks = this.#blocks
    const out = this.#out
    blocks.length = 0
    if (records.length <= postingsPerBlock) {
      const impactMax = scores ? writeImpacts(blocks, records, scores, 0, records.length) : 0
      writeDistances(blocks, records, 0, records.length)
      return { bytes: blocks.written(), impactMax }
    }
    out.length = 0
    let impactMax = 0
    for (let start = 0; start < records.length; start += postingsPerBlock) {
      const end = Math.min(start + postingsPerBlock, records.length)
      const blockMax = scores ? writeImpacts(blocks, records, scores, start, end) : 0
      impactMax = Math.max(impactMax, blockMax)
      out.u32(writeDistances(blocks, records, start, end))
      out.u32(blocks.length)
      out.u8(blockMax)
    }
    out.append(blocks.written())
    return { bytes: out.written(), impactMax }
  }
}

/** Impacts, then fields, two records a byte; returns the highest impact. Called for every posting: plain loops. */
function writeImpacts(
  out: ByteWriter,
  records: Uint32Array,
  scores: Uint16Array,
  start: number,
  end: number,
): number {
  const count = end - start
  out.reserve(count * 2)
  const { bytes, length: impactsAt } = out
  const fieldsAt = impactsAt + count
  let highest = 0
  for (let i = 0; i < count; i++) {
    const score = scores[records[start + i]!]!
    const impact = score >> 4
    if (impact > highest) highest = impact
    bytes[impactsAt + i] = impact
    const at = fieldsAt + (i >> 1)
    bytes[at] = i & 1 ? bytes[at]! | ((score & 15) << 4) : score & 15
  }
  out.length = fieldsAt + ((count + 1) >> 1)
  return highest
}

/** Distances to the record before; returns the last record. */
function writeDistances(out: ByteWriter, records: Uint32Array, start: number, end: number): number {
  out.reserve((end - start) * 4)
  const { bytes } = out
  let at = out.length
  let last = start === 0 ? -1 : records[start - 1]!
  for (let i = start; i < end; i++) {
    const record = records[i]!
    // Below 2^24, so at most four bytes.
    let rest = record - last - 1
    for (; rest > 127; rest >>>= 7) bytes[at++] = (rest & 127) | 128
    bytes[at++] = rest
    last = record
  }
  out.length = at
  return last
}
