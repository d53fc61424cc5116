/** How a query is read: text that is no phrase, beginning or filter is plain text, and nothing is a fault. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import { analyzer } from '../src/analysis/analyzer.ts'
import type { ParsedQuery } from '../src/contract.ts'
import { parseQuery, queryFiltersMax, queryPrefixesMax, queryWordsMax } from '../src/query/parse.ts'

const known = new Set(['id', 'collection', 'status', 'tags', 'a.b'])
const parse = (text: string) => parseQuery(text, analyzer, (name) => known.has(name))
const words = ({ words }: ParsedQuery) => words.map(({ text }) => text)

describe('a query', () => {
  it('is words, each with the terms that a record may hold', () => {
    const query = parse('Running getUserName')
    expect(query.words).toEqual([
      {
        text: 'Running',
        surface: 'running',
        terms: [
          { term: 'run', percent: 100 },
          { term: 'running', percent: expect.any(Number) },
        ],
      },
      {
        text: 'getUserName',
        surface: 'getusername',
        terms: [
          { term: 'getusernam', percent: 100 },
          { term: 'getusername', percent: expect.any(Number) },
          { term: 'get', percent: 33 },
          { term: 'user', percent: 33 },
          { term: 'name', percent: 33 },
        ],
      },
    ])
  })

  it('has each word once', () => {
    expect(words(parse('the plan, the Plans and THE planning'))).toEqual(['the', 'plan', 'and'])
  })

  it('holds quoted phrases, beginnings and filters', () => {
    const query = parse(
      '"boundary layer" hyper* status:active tag:"in review" title:wing mind_path:"docs/a" a.b:1',
    )
    expect(query.phrases.map(({ text, words }) => [text, words.map((word) => word.terms[0]!.term)])).toEqual([
      ['boundary layer', ['boundari', 'layer']],
    ])
    expect(query.prefixes).toEqual([{ text: 'hyper', prefix: 'hyper' }])
    expect(query.filters).toMatchObject([
      { kind: 'value', field: 'status', text: 'active' },
      { kind: 'value', field: 'tags', text: 'in review' },
      { kind: 'words', field: 'title', words: [{ text: 'wing' }] },
      { kind: 'words', field: 'path', words: [{ text: 'docs' }, { text: 'a' }] },
      { kind: 'value', field: 'a.b', text: '1' },
    ])
    expect(query.words).toEqual([])
  })

  it('takes the last word before a star for the beginning', () => {
    const query = parse('local-sea* fooBar*')
    expect(words(query)).toEqual(['local'])
    expect(query.prefixes.map(({ prefix }) => prefix)).toEqual(['sea', 'foobar'])
  })

  it.each([
    ['an unknown field', 'colour:red http://host:80/x', ['colour', 'red', 'http', 'host', '80', 'x']],
    ['an unbalanced quote', '5" disk', ['5', 'disk']],
    ['a quote within a word', 'o"neil "open', ['o', 'neil', 'open']],
    ['a lone star', '* wing ** - + ~ ^ ( ) { } [ ] \\ / & | !', ['wing']],
    ['a star within a word', 'a*b', ['a', 'b']],
    ['a name without a value', 'status: title: wing', ['status', 'title', 'wing']],
    ['a value without a name', ':active', ['active']],
    ['words of operators', 'NOT wing AND OR', ['NOT', 'wing', 'AND', 'OR']],
    ['names of the language', '__proto__:x constructor:y', ['__proto__', 'x', 'constructor', 'y']],
  ])('takes %s for plain text', (_what, text, expected) => {
    const query = parse(text)
    expect(words(query)).toEqual(expected)
    expect([query.phrases, query.prefixes, query.filters]).toEqual([[], [], []])
  })

  it('is empty where there is no word', () => {
    for (const text of ['', '   ', '""', '"', '*', '" "', '→ … —', '\0']) {
      expect(parse(text)).toEqual({ text, words: [], phrases: [], prefixes: [], filters: [] })
    }
  })

  it('reads scripts without spaces in pairs, and a character alone as a beginning', () => {
    const query = parse('東京タワー 水 "京都府"')
    expect(query.words.map(({ terms, surface }) => [terms[0]!.term, surface])).toEqual([
      ...[
        ['東京', ''],
        ['京タ', ''],
        ['タワ', ''],
        ['ワー', ''],
      ],
    ])
    expect(query.prefixes).toEqual([{ text: '水', prefix: '水' }])
    expect(query.phrases[0]!.words.map(({ terms }) => terms[0]!.term)).toEqual(['京都', '都府'])
  })

  it('never throws and stays within its bounds, whatever it is', () => {
    const pieces = fc.constantFrom(
      ...['"', '*', ':', ' ', 'status:', 'title:', 'wing', '\\', '(', 'tag:"', '水', '\ud800'],
    )
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc
        .array(fc.oneof(pieces, fc.string({ maxLength: 4 })), { maxLength: 60 })
        .map((parts) => parts.join('')),
    )
    fc.assert(
      fc.property(text, (given) => {
        const query = parse(given)
        expect(query.text).toBe(given)
        for (const { words } of query.phrases) expect(words.length).toBeGreaterThan(0)
        for (const { prefix } of query.prefixes) expect(prefix).not.toBe('')
        for (const { terms } of query.words) expect(terms.length).toBeGreaterThan(0)
      }),
      { numRuns: propertyRuns(3_000) },
    )
  })

  it('is bounded however long the text is', () => {
    const units = [
      '"a ',
      'a:b ',
      'status:x ',
      '(*"a',
      '水',
      'é',
      'a*b* ',
      'a',
      '"',
      'aB_',
      "x's ",
      'word* ',
      ':',
      '\u0300',
    ]
    for (const unit of units) {
      const query = parse(unit.repeat(1_000_000 / unit.length))
      expect(query.words.length).toBeLessThanOrEqual(queryWordsMax)
      expect(query.prefixes.length).toBeLessThanOrEqual(queryPrefixesMax)
      expect(query.filters.length).toBeLessThanOrEqual(queryFiltersMax)
    }
  })
})
