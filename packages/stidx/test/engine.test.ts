/** The results of searches and their order, against a plain scorer that reads every record. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import { analyzer } from '../src/analysis/analyzer.ts'
import {
  bHundredths,
  k1Hundredths,
  literalWeights,
  ownLengthHundredths,
  scoringWeights,
  textFields,
} from '../src/format.ts'
import { parseQuery } from '../src/query/parse.ts'
import { buildFrom, sampleRecords, seededRandom } from './support/index.ts'

type Source = Record<string, unknown> & { id: string }

interface Expected {
  id: string
  score: number
  fieldScore: number
}

/** For each record and term: how often it is in each field. */
function countTerms(records: readonly Source[]) {
  return records.map((record) => {
    const terms = new Map<string, number[]>()
    const lengths = textFields.map((field, i) => {
      const positions = new Set<number>()
      analyzer.analyzeField(String(record[field] ?? ''), field, (term, position) => {
        positions.add(position)
        if (!terms.has(term)) terms.set(term, [0, 0, 0, 0])
        terms.get(term)![i]!++
      })
      return positions.size
    })
    return { record, terms, lengths }
  })
}

let counts: ReturnType<typeof countTerms> | undefined

/** The formulas of docs/format.md, once over everything. */
function scoreAll(records: readonly Source[], text: string): Expected[] {
  counts ??= countTerms(records)
  const counted = counts
  const averages = textFields.map(
    (_, i) => counted.reduce((sum, { lengths }) => sum + lengths[i]!, 0) / records.length,
  )
  const k1 = k1Hundredths / 100
  const b = bHundredths / 100
  const own = ownLengthHundredths / 100
  const wholeOf = ({ lengths }: (typeof counted)[number]) => lengths.reduce((sum, length) => sum + length, 0)
  const wholeAverage = averages.reduce((sum, average) => sum + average, 0)
  const impactOf = (one: (typeof counted)[number], term: string) => {
    const t = one.terms.get(term)!.reduce((sum, frequency, i) => {
      if (frequency === 0) return sum
      const length = (own * one.lengths[i]!) / averages[i]! + ((1 - own) * wholeOf(one)) / wholeAverage
      return sum + ((scoringWeights[i]! / 100) * frequency) / (1 - b + b * length)
    }, 0)
    return Math.max(1, Math.round((255 * t) / (k1 + t)))
  }
  const { words } = parseQuery(text, analyzer, () => false)
  const holders = new Map<string, number>()
  for (const term of words.flatMap((word) => word.terms.map((one) => one.term))) {
    holders.set(term, counted.filter((one) => one.terms.has(term)).length)
  }
  const scored = counted.map((one) => {
    let sum = 0
    let fieldScore = 0
    for (const { terms } of words) {
      const fields = [0, 0, 0, 0]
      for (const { term, percent } of terms) {
        if (!one.terms.has(term)) continue
        const n = holders.get(term)!
        const idf = Math.log(1 + (records.length - n + 0.5) / (n + 0.5))
        const weight = Math.max(1, Math.floor((Math.max(1, Math.round(idf * 1024)) * percent) / 100))
        sum += weight * impactOf(one, term)
        one.terms.get(term)!.forEach((frequency, i) => {
          if (frequency > 0) fields[i] = literalWeights[i]!
        })
      }
      fieldScore += fields.reduce((a, c) => a + c, 0)
    }
    const score = Math.round((sum * 10_000) / ((1024 * 255) / (k1 + 1))) / 10_000
    return { record: one.record, id: one.record.id, score, sum, fieldScore }
  })
  return scored.filter(({ sum }) => sum > 0).sort((a, c) => c.sum - a.sum || compareAge(a.record, c.record))
}

function compareAge(a: Source, b: Source): number {
  const age = ({ updated_at }: Source) => (updated_at ? Date.parse(String(updated_at)) : 0)
  return age(b) - age(a) || (a.id < b.id ? -1 : 1)
}

const records = sampleRecords(700) as Source[]

/** Built from many runs, so that their merging is under test, too. */
const openSample = () => buildFrom(records, { listBytesHeldMax: 12_000 }).open()

describe('a search', () => {
  it('gives what a scorer over every record gives: the same records, order and digits', () => {
    const index = openSample()
    const word = fc.constantFrom(
      ...'the of deploy run runs deployment green gateway index searching camelCaseName café cafe 東京 рыба retries zebra notes md rec nothing'.split(
        ' ',
      ),
    )
    fc.assert(
      fc.property(
        fc.uniqueArray(word, { minLength: 1, maxLength: 7 }),
        fc.constantFrom(1, 10, 1000),
        (words, limit) => {
          const text = words.join(' ')
          const expected = scoreAll(records, text)
          const answer = index.search(text, { limit })
          const tier = (score: number) => (score >= 10_000 ? score % 10_000 : score)
          if (answer.corrected === undefined) expect(answer.total).toBe(expected.length)
          if (answer.corrected === undefined && answer.results.every(({ score }) => score < 10_000)) {
            expect(
              answer.results.map(({ id, score, field_score }) => ({
                id,
                score: tier(score),
                fieldScore: field_score,
              })),
            ).toEqual(
              expected.slice(0, limit).map(({ id, score, fieldScore }) => ({ id, score, fieldScore })),
            )
          }
        },
      ),
      { numRuns: propertyRuns(60) },
    )
  })

  it('ranks by the literal sum when it is asked to, ties newest first', () => {
    const index = openSample()
    const expected = scoreAll(records, 'whale gateway').sort(
      (a, b) =>
        b.fieldScore - a.fieldScore ||
        compareAge(records.find(({ id }) => id === a.id)!, records.find(({ id }) => id === b.id)!),
    )
    const { results } = index.search('whale gateway', { limit: 50, scoring: 'literal' })
    expect(results.map(({ id, score }) => [id, score])).toEqual(
      expected.slice(0, 50).map(({ id, fieldScore }) => [id, fieldScore]),
    )
  })

  it('reads only some blocks of a frequent word, and still gives the best records and their number', () => {
    const random = seededRandom(5)
    const index = buildFrom(
      Array.from({ length: 4000 }, (_, i) => ({
        id: `n-${i}`,
        title: i % 1000 === 0 ? 'News' : `Record ${i % 3}`,
        // Slugs hold the word as it is written; the stem of `newses` is `news`, and theirs is not `new`.
        ...(i % 1000 === 7 ? { slug: 'news' } : {}),
        body:
          i % 2000 === 3
            ? 'newses'
            : `${'news '.repeat(i % 1000 === 0 ? 9 : random() ** 4 * 9)}${'word '.repeat(random() * 9)}`,
      })),
    ).open()
    for (const word of ['news', 'word', 'record']) {
      const all = index.search(word, { limit: 10_000 })
      expect(all.results).toHaveLength(all.total)
      for (const limit of [1, 2, 5, 10, 13]) {
        expect(index.search(word, { limit })).toMatchObject({
          total: all.total,
          results: all.results.slice(0, limit),
        })
      }
    }
  })
})
