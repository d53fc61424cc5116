/** Turns ranked records into the results that are shown. */

import type { ScoringName, SearchHit } from '../contract.ts'
import { impactMax, termWeightUnit, textFields } from '../format.ts'
import { PostingLookUp } from '../reader/postings.ts'
import { readRecord } from '../reader/records.ts'
import { textOf } from '../reader/text.ts'
import type { Engine } from './engine.ts'
import { tierStep } from './exact.ts'
import { literalSum } from './scores.ts'
import type { Ranked } from './top-records.ts'
import type { ScoredWord } from './words.ts'

/** Added to the score that is shown for an exact title, slug (twice) or id (three times). */
const shownTierStep = 10_000

/** Reads the records and says for each which of its fields hold the words. To be called before the search ends. */
export function showHits(
  engine: Engine,
  ranked: readonly Ranked[],
  words: readonly ScoredWord[],
  scoring: ScoringName,
): SearchHit[] {
  const matched = words.map((word) => fieldsOfWord(word, ranked))
  return ranked.map(({ record, score }, i) => {
    const { head } = readRecord(engine.file, record)
    const { id, title: _, slug: __, path: ___, body: ____, ...payload } = head
    const fields = matched.reduce((all, ofWord) => all | ofWord[i]!, 0)
    return {
      id,
      score: shownScore(score, scoring, engine.file.header.k1Hundredths),
      title: textOf(head, 'title') || null,
      slug: textOf(head, 'slug') || null,
      path: textOf(head, 'path') || null,
      field_score: matched.reduce((sum, ofWord) => sum + literalSum(ofWord[i]!), 0),
      matched_fields: textFields.filter((_name, bit) => fields & (1 << bit)),
      payload,
    }
  })
}

/** For each hit the fields that hold the word, as bits. */
function fieldsOfWord(word: ScoredWord, ranked: readonly Ranked[]): number[] {
  if ('group' in word) return ranked.map(({ record }) => word.group.fieldsOf(record))
  const lookUps = word.lists.map(({ list }) => new PostingLookUp(list))
  return ranked.map(({ record }) => lookUps.reduce((all, lookUp) => all | (lookUp.find(record) & 15), 0))
}

/** Fixed-point sums, printed with four decimals: the same digits on every machine. */
function shownScore(score: number, scoring: ScoringName, k1Hundredths: number): number {
  const tier = Math.floor(score / tierStep)
  const sum = score % tierStep
  if (scoring === 'literal') return tier * shownTierStep + sum
  const unitsPerPoint = (termWeightUnit * impactMax * 100) / (k1Hundredths + 100)
  return (tier * shownTierStep * 10_000 + Math.round((sum * 10_000) / unitsPerPoint)) / 10_000
}
