/** Keeps the best records of a search: by falling score, then by rising record. */

export interface Ranked {
  record: number
  score: number
}

/** The best records so far, in order. */
export class TopRecords {
  /** Scores below it are not among the best. */
  floor: number
  readonly #most: number
  #count = 0
  readonly #scores: Uint32Array
  readonly #records: Uint32Array

  /** `floor`: what all of them are known to reach. */
  constructor(most: number, floor = 0) {
    this.floor = floor
    this.#most = most
    this.#scores = new Uint32Array(most)
    this.#records = new Uint32Array(most)
  }

  add(record: number, score: number): void {
    if (score < this.floor) return
    const scores = this.#scores
    const records = this.#records
    let low = 0
    let high = this.#count
    while (low < high) {
      const middle = (low + high) >> 1
      const its = scores[middle]!
      const isBefore = its === score ? records[middle]! < record : its > score
      if (isBefore) low = middle + 1
      else high = middle
    }
    if (low === this.#most) return
    if (this.#count < this.#most) this.#count++
    scores.copyWithin(low + 1, low, this.#count - 1)
    records.copyWithin(low + 1, low, this.#count - 1)
    scores[low] = score
    records[low] = record
    if (this.#count === this.#most) this.floor = scores[this.#most - 1]!
  }

  /** False where a record from this one on is not among the best with the score of the floor. */
  takesAtFloor(record: number): boolean {
    return this.#count < this.#most || this.#records[this.#most - 1]! > record
  }

  ranked(): Ranked[] {
    return Array.from({ length: this.#count }, (_, i) => ({
      score: this.#scores[i]!,
      record: this.#records[i]!,
    }))
  }
}
