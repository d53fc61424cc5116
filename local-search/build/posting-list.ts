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
    out.length = 0
    let impactMax = 0
    let before = -1
    for (let start = 0; start < postings.length; start += postingsPerBlock) {
      const block = postings.subarray(start, start + postingsPerBlock)
      const blockMax = scored ? highestImpact(block) : 0
      impactMax = Math.max(impactMax, blockMax)
      before = writeBlock(blocks, block, before, scored)
      if (postings.length > postingsPerBlock) {
        out.u32(before)
        out.u32(blocks.length)
        out.u8(blockMax)
      }
    }
    out.append(blocks.written())
    return { bytes: out.written(), impactMax }
  }
}

/** Impacts, then fields, two records a byte, then distances; returns the last record. */
function writeBlock(out: ByteWriter, block: Float64Array, before: number, scored: boolean): number {
  if (scored) {
    for (const posting of block) out.u8((posting % 4096) >>> 4)
    for (let i = 0; i < block.length; i += 2) {
      const low = block[i]! % 16
      const high = i + 1 < block.length ? block[i + 1]! % 16 : 0
      out.u8(low | (high << 4))
    }
  }
  let last = before
  for (const posting of block) {
    const record = Math.floor(posting / 4096)
    out.varint(record - last - 1)
    last = record
  }
  return last
}

function highestImpact(block: Float64Array): number {
  let highest = 0
  for (const posting of block) highest = Math.max(highest, (posting % 4096) >>> 4)
  return highest
}
