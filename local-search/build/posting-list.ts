/** Postings of one term in, its list as bytes out. */

import { postingsPerBlock } from '../format.ts'
import { ByteWriter } from './byte-writer.ts'

/** A posting as one exact number, so that sorting numbers sorts by record: record << 12 | impact << 4 | fields. */
export function packPosting(record: number, impact: number, fields: number): number {
  return record * 4096 + impact * 16 + fields
}

export interface EncodedList {
  bytes: Buffer
  impactMax: number
}

/** Encodes lists one after the other; what it returns is valid until the next one. */
export class ListEncoder {
  readonly #blocks = new ByteWriter(1 << 16)
  readonly #out = new ByteWriter(1 << 16)

  /** `postings` by rising record; `scored`: with impacts and fields. */
  encode(postings: Float64Array, scored: boolean): EncodedList {
    const blocks = this.#blocks
    const out = this.#out
    blocks.length = 0
    if (postings.length <= postingsPerBlock) {
      const impactMax = scored ? writeImpacts(blocks, postings, 0, postings.length) : 0
      writeDistances(blocks, postings, 0, postings.length)
      return { bytes: blocks.written(), impactMax }
    }
    out.length = 0
    let impactMax = 0
    for (let start = 0; start < postings.length; start += postingsPerBlock) {
      const end = Math.min(start + postingsPerBlock, postings.length)
      const blockMax = scored ? writeImpacts(blocks, postings, start, end) : 0
      impactMax = Math.max(impactMax, blockMax)
      out.u32(writeDistances(blocks, postings, start, end))
      out.u32(blocks.length)
      out.u8(blockMax)
    }
    out.append(blocks.written())
    return { bytes: out.written(), impactMax }
  }
}

/** Impacts, then fields, two records a byte; returns the highest impact. Called for every posting: plain loops. */
function writeImpacts(out: ByteWriter, postings: Float64Array, start: number, end: number): number {
  const count = end - start
  out.reserve(count * 2)
  const { bytes, length: impactsAt } = out
  const fieldsAt = impactsAt + count
  let highest = 0
  for (let i = 0; i < count; i++) {
    const posting = postings[start + i]!
    const low = posting - Math.floor(posting / 4096) * 4096
    const impact = low >> 4
    if (impact > highest) highest = impact
    bytes[impactsAt + i] = impact
    const at = fieldsAt + (i >> 1)
    bytes[at] = i & 1 ? bytes[at]! | ((low & 15) << 4) : low & 15
  }
  out.length = fieldsAt + ((count + 1) >> 1)
  return highest
}

/** Distances to the record before; returns the last record. */
function writeDistances(out: ByteWriter, postings: Float64Array, start: number, end: number): number {
  out.reserve((end - start) * 4)
  const { bytes } = out
  let at = out.length
  let last = start === 0 ? -1 : Math.floor(postings[start - 1]! / 4096)
  for (let i = start; i < end; i++) {
    const record = Math.floor(postings[i]! / 4096)
    // Below 2^24, so at most four bytes.
    let rest = record - last - 1
    for (; rest > 127; rest >>>= 7) bytes[at++] = (rest & 127) | 128
    bytes[at++] = rest
    last = record
  }
  out.length = at
  return last
}
