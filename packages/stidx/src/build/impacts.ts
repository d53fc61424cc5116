/** Computes how much a term counts in a record, as a number from 1 to 255, from how often its fields hold it. */

import {
  bHundredths,
  impactMax,
  k1Hundredths,
  ownLengthHundredths,
  scoringWeights,
  termWeightUnit,
  textFields,
} from '../format.ts'
import type { Catalogue } from './catalogue.ts'

export interface Impacts {
  /** Sums of words over the records that stay, by field. */
  fieldWords: number[]
  /** BM25F: frequencies (a byte a field), weighed and set off by lengths, through tf / (k1 + tf). */
  impactOf(record: number, frequencies: number): number
  /** ln(1 + (N - n + 0.5) / (n + 0.5)) in 1/1024. */
  weightOf(count: number): number
}

export function createImpacts(catalogue: Catalogue, order: Uint32Array): Impacts {
  const fieldWords = textFields.map((_, field) => {
    let words = 0
    for (const record of order) words += catalogue.lengthOf(record, field)
    return words
  })
  const k1 = k1Hundredths / 100
  const b = bHundredths / 100
  const own = ownLengthHundredths / 100
  const perWord = fieldWords.map((words) => (words === 0 ? 0 : (b * own * order.length) / words))
  const allWords = fieldWords.reduce((sum, words) => sum + words, 0)
  const perWordOfAll = allWords === 0 ? 0 : (b * (1 - own) * order.length) / allWords
  const lengths = catalogue.lengths()
  const weights = scoringWeights.map((weight) => weight / 100)
  return {
    fieldWords,
    impactOf(record, frequencies) {
      const at = record * 4
      const words = lengths[at]! + lengths[at + 1]! + lengths[at + 2]! + lengths[at + 3]!
      const base = 1 - b + words * perWordOfAll
      let weighed = 0
      // Most terms are in few fields: the others cost a shift.
      for (let rest = frequencies >>> 0, field = 0; rest !== 0; rest >>>= 8, field++) {
        const frequency = rest & 255
        if (frequency === 0) continue
        weighed += (weights[field]! * frequency) / (base + lengths[at + field]! * perWord[field]!)
      }
      return Math.max(1, Math.round((impactMax * weighed) / (k1 + weighed)))
    },
    weightOf(count) {
      const idf = Math.log(1 + (order.length - count + 0.5) / (count + 0.5))
      return Math.max(1, Math.round(idf * termWeightUnit))
    },
  }
}
