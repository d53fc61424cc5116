/** Beginnings of words: a list that was joined ahead gives what joining the words' lists gives. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import { BroadBeginnings } from '../src/build/broad.ts'
import type { SearchOptions } from '../src/contract.ts'
import { buildFrom, sampleRecords } from './support/index.ts'

/** Words whose stems begin otherwise than they do, and other scripts. */
const further = [
  'any anybody anything',
  'ties tie dying used uses',
  'الكتاب كتاب',
  '東京の天気 東大',
  'ünder über',
]
const records = sampleRecords(600, 3).map((record, i) => ({
  ...record,
  body: `${record.body} ${further[i % 7] ?? ''} n${i % 50}`,
}))

describe('a list of a beginning', () => {
  it.each([
    ['of all that have two words', 1],
    ['of the broad ones', 900],
  ])('%s, gives the same answers as the lists of its words', (_name, broadFrom) => {
    const plain = buildFrom(records).open()
    const joined = buildFrom(records, { broadFrom }).open()
    expect([plain.stats().sections.joined, plain.stats().sections.beginnings]).toEqual([0, 0])
    expect(joined.stats().sections.joined).toBeGreaterThan(1000)
    const beginning = fc.constantFrom(
      ...'d* de* deploy* a* an* any* t* ti* tie* u* use* w* n* n1* s* c* ك* الك* 東* ü* x* rec* notes*'.split(
        ' ',
      ),
    )
    const piece = fc.oneof(
      { weight: 3, arbitrary: beginning },
      fc.constantFrom('whale', 'gateway', '"green blue"', 'title:deploy', 'status:active', '東'),
    )
    const options: fc.Arbitrary<SearchOptions> = fc.record({
      limit: fc.constantFrom(1, 3, 10, 1000),
      scoring: fc.constantFrom('bm25', 'literal'),
    })
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 4 }), options, (pieces, asked) => {
        const [expected, found] = [plain, joined].map((index) => index.search(pieces.join(' '), asked))
        expect({ ...found, took_ms: 0 }).toEqual({ ...expected, took_ms: 0 })
      }),
      { numRuns: propertyRuns(250) },
    )
    plain.close()
    joined.close()
  })
})

describe('broad beginnings', () => {
  it('are those of many frequent words, whole characters, without the most frequent word', () => {
    const broad = new BroadBeginnings(1000)
    const words: [string, number][] = [
      ['apple', 600],
      ['apply', 700],
      ['the', 1_000_000],
      ['théa', 1200],
      ['thêb', 1200],
      ...Array.from({ length: 30 }, (_, i): [string, number] => [`z${10 + i}`, 1]),
    ]
    const bytes = words.map(([word, count]) => [Buffer.from(word).toString('latin1'), count] as const)
    for (const [word, count] of bytes.toSorted(([a], [b]) => (a < b ? -1 : 1))) broad.add(word, count)
    // The greater of apple and apply does not count; é and ê begin with the same byte.
    expect(broad.finish()).toEqual(['t', 'th', 'z'])
  })
})
