/** Adds up the scores of all records that hold a word of the query, and picks the best of them. */

import { literalWeights, postingsPerBlock } from '../format.ts'
import { damagedPostings, type PostingList, skipBytes } from '../reader/postings.ts'
import { Group } from './group.ts'
import { type Ranked, TopRecords } from './top-records.ts'

/** The plain sum of the weights of these fields (bits). */
export function literalSum(fields: number): number {
  return literalWeights.reduce((sum, weight, i) => sum + (fields & (1 << i) ? weight : 0), 0)
}

/** One search at a time: `begin`, lists, `best`. After a fault it must not be used again. */
export class Scores {
  readonly #records: number
  /** By record: its score so far; 0 while it has not been met. */
  readonly #scores: Uint32Array
  readonly #met: Uint32Array
  #metCount = 0
  /** Made when they are asked for: most searches need none. */
  readonly #groups: Group[] = []
  #groupsTaken = 0
  /** In the list being scored: where the next block begins, and its last record so far. */
  #at = 0
  #record = -1

  constructor(records: number) {
    this.#records = records
    this.#scores = new Uint32Array(records)
    this.#met = new Uint32Array(records)
  }

  /** Forgets the search before: only the records that it met are touched. */
  begin(): void {
    for (let i = 0; i < this.#metCount; i++) this.#scores[this.#met[i]!] = 0
    this.#metCount = 0
    for (let i = 0; i < this.#groupsTaken; i++) this.#groups[i]!.clear()
    this.#groupsTaken = 0
  }

  /** An entry for each record, whatever is in them: free until the first record is scored. */
  scratch(): Uint32Array {
    return this.#met
  }

  /** Adds impact × weight for each record of the list. */
  score(list: PostingList, weight: number): void {
    this.#at = skipBytes(list.count)
    this.#record = -1
    for (let left = list.count; left > 0; left -= postingsPerBlock) {
      this.#scoreBlock(list.bytes, Math.min(left, postingsPerBlock), weight)
    }
    if (list.count === 0 || this.#at !== list.bytes.length) throw damagedPostings()
    this.#metCount = this.#bounded(this.#metCount)
  }

  /**
   * Decodes a block and adds its scores in one loop: most of the time of a search is spent here. A function for each
   * block is called often, so that V8 compiles it early in a process that lives for one search.
   */
  #scoreBlock(bytes: Buffer, n: number, weight: number): void {
    const scores = this.#scores
    const met = this.#met
    const records = this.#records
    const end = this.#at + n
    let at = end + ((n + 1) >> 1)
    let record = this.#record
    let metCount = this.#metCount
    for (let impactAt = this.#at; impactAt < end; impactAt++) {
      let delta = bytes[at++]!
      if (delta >= 128) {
        delta &= 127
        let shift = 7
        let byte: number
        do {
          if (shift > 21) throw damagedPostings()
          byte = bytes[at++]!
          delta |= (byte & 127) << shift
          shift += 7
        } while (byte >= 128)
      }
      record += delta + 1
      // Bytes beyond the list are undefined, which makes this false, too.
      if (!(record < records)) throw damagedPostings()
      const before = scores[record]!
      if (before === 0) met[metCount++] = record
      scores[record] = before + weight * bytes[impactAt]!
    }
    this.#at = at
    this.#record = record
    this.#metCount = metCount
  }

  /** An empty group, free until the next search. */
  takeGroup(): Group {
    this.#groups[this.#groupsTaken] ??= new Group(this.#records)
    return this.#groups[this.#groupsTaken++]!
  }

  /** The group that was taken last is free again. */
  returnGroup(group: Group): void {
    group.clear()
    this.#groupsTaken--
  }

  /** Adds a word to the scores: by impact and weight, or its literal sum where the weight is null. */
  addGroup(group: Group, weight: number | null): void {
    for (let i = 0; i < group.count; i++) {
      const record = group.records[i]!
      this.lift(
        record,
        weight === null ? literalSum(group.fieldsOf(record)) : group.impactOf(record) * weight,
      )
    }
  }

  /** Adds to the score of one record. */
  lift(record: number, add: number): void {
    const before = this.#scores[record]!
    if (before === 0) {
      this.#met[this.#metCount] = record
      this.#metCount = this.#bounded(this.#metCount + 1)
    }
    this.#scores[record] = before + add
  }

  /** Forgets the records whose bit is not set. */
  restrict(eligible: Uint8Array): void {
    const count = this.#metCount
    this.#metCount = 0
    for (let start = 0; start < count; start += stretch) {
      this.#restrictStretch(eligible, start, Math.min(count, start + stretch))
    }
  }

  #restrictStretch(eligible: Uint8Array, start: number, end: number): void {
    const scores = this.#scores
    const met = this.#met
    let count = this.#metCount
    for (let i = start; i < end; i++) {
      const record = met[i]!
      const bit = (eligible[record >> 3]! >> (record & 7)) & 1
      met[count] = record
      count += bit
      scores[record] = scores[record]! * bit
    }
    this.#metCount = count
  }

  metCount(): number {
    return this.#metCount
  }

  /** By falling score, then by rising record. */
  best(limit: number): Ranked[] {
    const scores = this.#scores
    const met = this.#met
    const metCount = this.#metCount
    const top = new TopRecords(Math.min(limit, metCount))
    for (let i = 0; i < metCount; i++) {
      const at = nextAtLeast(top.floor, scores, met, i, Math.min(metCount, i + stretch))
      if (at === -1) i += stretch - 1
      else {
        i = at
        top.add(met[i]!, scores[met[i]!]!)
      }
    }
    return top.ranked()
  }

  /** A damaged list with an impact of 0 would let a record be met twice. */
  #bounded(count: number): number {
    return Math.min(count, this.#records)
  }
}

/** Records that are looked at in one call: see `#scoreBlock`. */
const stretch = 256

/** Where the first of the met records is whose score is not below `floor`; -1: none before `end`. */
function nextAtLeast(
  floor: number,
  scores: Uint32Array,
  met: Uint32Array,
  start: number,
  end: number,
): number {
  for (let i = start; i < end; i++) if (scores[met[i]!]! >= floor) return i
  return -1
}
