/** Phrases: what positions in the index find is what reading every stored text finds. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import { analyzer } from '../src/analysis/analyzer.ts'
import { parseQuery } from '../src/query/parse.ts'
import { buildFrom, sampleRecords } from './support/index.ts'
import { holds, placesOf } from './support/places.ts'

type Source = Record<string, unknown> & { id: string }

/** Some ids come twice: the last one wins, and the positions of the first must not count. */
const records = [...sampleRecords(900, 7), ...sampleRecords(300, 8)] as Source[]
const staying = new Map(records.map((record) => [record.id, placesOf(record)]))
const words =
  'the of deploy running runs whale ocean green blue gateway vector searching camelCaseName user café 東京都 рыба node_modules modules retry zebra lighthouse'.split(
    ' ',
  )

/** Without what an exact title, slug or id adds; in whole numbers. */
const unlifted = (score: number) => Math.round(score * 10_000) % 100_000_000

describe('a phrase', () => {
  it.each([
    ['one run', {}],
    ['many runs', { listBytesHeldMax: 20_000 }],
  ])('is found in exactly the records that hold it, built from %s', (_name, options) => {
    const index = buildFrom(records, options).open()
    expect(index.stats().records).toBe(900)
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 3 }), (phrase) => {
        const text = `"${phrase.join(' ')}"`
        const [parsed] = parseQuery(text, analyzer, () => false).phrases
        const terms = parsed!.words.map((word) => word.terms[0]!.term)
        const expected = [...staying].filter(([, fields]) => holds(fields, terms)).map(([id]) => id)
        const { results, relaxed } = index.search(text, { limit: 10_000 })
        const found = relaxed ? [] : results.map(({ id }) => id).sort()
        expect([text, found]).toEqual([text, expected.sort()])
        // A phrase only requires: its words score as they do without quotes, with other words and among filters, too.
        for (const rest of ['', ' whale status:active', ` ${phrase[0]} "blue gateway"`]) {
          const plain = index.search(`${phrase.join(' ')}${rest}`, { limit: 10_000 }).results
          const scores = new Map(
            plain.map(({ id, score, field_score }) => [id, [unlifted(score), field_score]]),
          )
          const answer = index.search(text + rest, { limit: 10_000 })
          for (const hit of answer.relaxed ? [] : answer.results) {
            expect([text + rest, unlifted(hit.score), hit.field_score]).toEqual([
              text + rest,
              ...scores.get(hit.id)!,
            ])
          }
        }
      }),
      { numRuns: propertyRuns(120) },
    )
    index.close()
  })

  it('is found in any of its forms, far into a long text, and not across two fields', () => {
    const long = `${'word '.repeat(70_000)}harbour lights ${'the '.repeat(300)}end`
    const others = Array.from({ length: 200 }, (_, i) => ({
      id: `n${i}`,
      body: 'lights word the harbour end',
    }))
    const index = buildFrom([
      { id: 'long', title: 'The', body: long },
      { id: 'fields', title: 'a harbour', slug: 'lights' },
      ...others,
    ]).open()
    const ids = (query: string) => {
      const { results, relaxed } = index.search(query)
      return relaxed ? [] : results.map(({ id }) => id)
    }
    expect(ids('"harbours light"')).toEqual(['long'])
    expect(ids('"the end"')).toEqual(['long'])
    expect(ids('"word harbour lights"')).toEqual(['long'])
    expect(ids('"the the word"')).toEqual([])
    index.close()
  })
})
