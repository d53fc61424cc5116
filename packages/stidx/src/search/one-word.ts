/**
 * Ranks the records of a query of one word without a sum for each record: the highest impact of each block of its longest
 * list says which blocks may hold one of the best, and only these are read.
 */

import { postingsPerBlock } from '../format.ts'
import {
  blockStart,
  blocksOf,
  damagedPostings,
  impactOfBlock,
  lastOfBlock,
  PostingBlocks,
  type PostingList,
  PostingLookUp,
  recordsOfBlock,
} from '../reader/postings.ts'
import { type Ranked, TopRecords } from './top-records.ts'

export interface WeighedList {
  list: PostingList
  weight: number
}

/** A record of another list is looked up in the longest one, which costs about half a block. */
const postingsPerLookUp = 32

/**
 * The best records and how many there are in all; null where adding up all lists is less work. `lifted` is added to
 * the scores of some records.
 */
export function rankOneWord(
  lists: readonly WeighedList[],
  lifted: ReadonlyMap<number, number>,
  limit: number,
  records: number,
): { ranked: Ranked[]; total: number } | null {
  const longest = lists.reduce((most, one) => (one.list.count > most.list.count ? one : most))
  const others = lists.filter((one) => one !== longest)
  const { count } = longest.list
  const lookUps = others.reduce((sum, { list }) => sum + list.count, lifted.size)
  if (blocksOf(count) <= limit || lookUps * postingsPerLookUp > count) return null
  const added = addUp(others, lifted, records)
  const top = new TopRecords(limit, longest.weight * reachedImpact(longest.list, limit))
  let total = count
  const lookUp = new PostingLookUp(longest.list)
  for (const [record, score] of added) {
    const posting = lookUp.find(record)
    if (posting === 0) total++
    top.add(record, score + (posting >> 4) * longest.weight)
  }
  addBest(top, longest, added, records)
  return { ranked: top.ranked(), total }
}

function addUp(
  lists: readonly WeighedList[],
  lifted: ReadonlyMap<number, number>,
  records: number,
): Map<number, number> {
  const added = new Map(lifted)
  for (const { list, weight } of lists) {
    const blocks = new PostingBlocks(list, records)
    for (let n = blocks.next(); n > 0; n = blocks.next()) {
      for (let i = 0; i < n; i++) {
        const record = blocks.numbers[i]!
        added.set(record, (added.get(record) ?? 0) + weight * list.bytes[blocks.impactsAt + i]!)
      }
    }
  }
  return added
}

/** An impact that at least `limit` records have or exceed: as many blocks have such a highest one. */
function reachedImpact({ bytes, count }: PostingList, limit: number): number {
  const impacts = new Uint8Array(blocksOf(count))
  for (let block = 0; block < impacts.length; block++) impacts[block] = impactOfBlock(bytes, block)
  return impacts.sort()[impacts.length - limit]!
}

/** Adds the best records of the list, but for those that were added already. */
function addBest(
  top: TopRecords,
  { list, weight }: WeighedList,
  added: ReadonlyMap<number, number>,
  records: number,
): void {
  const { bytes, count } = list
  const blocks = blocksOf(count)
  if (blockStart(list, blocks) !== bytes.length) throw damagedPostings()
  for (let block = 0, before = -1; block < blocks; before = lastOfBlock(bytes, block++)) {
    // Records rise: a later one with the same score comes after those that are there.
    const least = Math.ceil((top.floor + (top.takesAtFloor(before) ? 0 : 1)) / weight)
    if (impactOfBlock(bytes, block) < least) continue
    const start = blockStart(list, block)
    const end = start + Math.min(count - block * postingsPerBlock, postingsPerBlock)
    let numbers: Uint32Array | undefined
    for (let at = start; at < end; at++) {
      const impact = bytes[at]!
      if (impact < least) continue
      numbers ??= recordsOfBlock(list, block, records)
      const record = numbers[at - start]!
      if (!added.has(record)) top.add(record, impact * weight)
    }
  }
}
