/** How text becomes terms: alike for an index and its queries, on every engine. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { stemmer } from 'stemmer'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import { seeded } from '../bench/generate.ts'
import { analyzer } from '../src/analysis/analyzer.ts'
import { classOf, ignored, letter, paired, pictograph, separator } from '../src/analysis/character-classes.ts'
import { porterStem } from '../src/analysis/porter.ts'
import type { TextField } from '../src/contract.ts'

interface Emitted {
  term: string
  position: number
  surface: string
}

function emitted(text: string, field: TextField = 'body'): Emitted[] {
  const found: Emitted[] = []
  analyzer.analyzeField(text, field, (term, position, surface) => found.push({ term, position, surface }))
  return found
}

const terms = (text: string, field?: TextField) => emitted(text, field).map(({ term }) => term)

describe('the Porter stemmer', () => {
  const text = readFileSync(new URL('./cranfield/docs.jsonl', import.meta.url), 'utf8')

  it('gives the stems of an established implementation for every word of the Cranfield abstracts', () => {
    const words = [...new Set(text.toLowerCase().match(/[a-z]+/g))]
    expect(words.length).toBeGreaterThan(7_000)
    expect(words.filter((word) => porterStem(word) !== stemmer(word))).toEqual([])
  })

  it('agrees with it on heads and suffixes put together', () => {
    const suffixes =
      'ational tional enci anci izer bli alli entli eli ousli ization ation ator alism iveness fulness ousness ' +
      'aliti iviti biliti logi icate ative alize iciti ical ful ness al ance er ic able ant ement ment ent sion ' +
      'tion ou ism ate iti ous ive ize s es ed ing y e ll sses ies'
    const heads =
      'a b abs conn tr sy toy rat hop fil fail siz plan abat os st con com cont roll contr wax box'
    const words = heads
      .split(' ')
      .flatMap((head) =>
        suffixes
          .split(' ')
          .flatMap((one) => [head + one, ...suffixes.split(' ').map((two) => head + one + two)]),
      )
    // The oracle takes a second y for a vowel where the published program has a consonant.
    const judged = words.filter((word) => !word.includes('yy') && !/^syy?/.test(word))
    expect(judged.filter((word) => porterStem(word) !== stemmer(word))).toEqual([])
  })
})

describe('the analyser', () => {
  it('stems English and leaves names with digits or underscores as they are', () => {
    expect(terms('Running shoes, utf8 and user_names!')).toEqual([
      ...['run', 'shoe', 'utf8', 'and', 'user_names', 'user', 'name'],
    ])
  })

  it('counts a possessive with its word', () => {
    expect(terms("Prandtl's wing, Prandtl’s WINGS and 's")).toEqual([
      'prandtl',
      'wing',
      'prandtl',
      'wing',
      'and',
      's',
    ])
  })

  it('finds names by their parts, at the position of the name', () => {
    expect(emitted('getUserName HTTPServer GPUs').map(({ term, position }) => `${position} ${term}`)).toEqual(
      [...['0 getusernam', '0 get', '0 user', '0 name', '1 httpserver', '1 http', '1 server', '2 gpu']],
    )
  })

  it('adds the exact form in slugs and paths, as a term that no prefix finds', () => {
    expect(emitted('docs/running-shoes', 'path')).toEqual([
      { term: 'doc', position: 0, surface: 'docs' },
      { term: 'docs', position: 0, surface: '' },
      { term: 'run', position: 1, surface: 'running' },
      { term: 'running', position: 1, surface: '' },
      { term: 'shoe', position: 2, surface: 'shoes' },
      { term: 'shoes', position: 2, surface: '' },
    ])
    expect(analyzer.termsOf('shoes').map(({ term }) => term)).toEqual(['shoe', 'shoes'])
    expect(terms('shoes')).toEqual(['shoe'])
  })

  it('drops the marks of Latin, Greek, Arabic and Hebrew and keeps those that make other letters', () => {
    expect(terms('Łódź Straße STRASSE naïve Ὀδυσσεύς ΟΔΥΣΣΕΥΣ ё й')).toEqual(
      terms('lodz strasse strasse naive οδυσσευσ οδυσσευσ е й'),
    )
    expect(terms('שָׁלוֹם')).toEqual(['שלום'])
    expect(terms('हिन्दी में')).toEqual(['हिन्दी', 'में'])
    expect(terms('がか')).not.toEqual(terms('かか'))
  })

  it('reads Arabic without vowel signs, tatweel, and light affixes', () => {
    expect(terms('والكتاب الكِتَابُ كـتـاب')).toEqual(['كتاب', 'كتاب', 'كتاب'])
    expect(terms('أحمد إحمد آحمد')).toEqual(['احمد', 'احمد', 'احمد'])
    expect(terms('مدرسة مدرسه على علي ٣٤ ۳۴')).toEqual(['مدرس', 'مدرس', 'عل', 'عل', '34', '34'])
    expect(terms('المعلمون')).toEqual(terms('معلم'))
  })

  it('takes scripts without spaces in pairs, and the last character alone next to the last pair', () => {
    expect(emitted('東京タワー').map(({ term, position }) => `${position}${term}`)).toEqual([
      ...['0東京', '1京タ', '2タワ', '3ワー', '3ー'],
    ])
    expect(terms('ภาษา')).toEqual(['ภา', 'าษ', 'ษา', 'า'])
    expect(terms('한국어')).toEqual(['한국', '국어', '어'])
    expect(terms('日本語text水')).toEqual(['日本', '本語', '語', 'text', '水'])
    expect(terms('ﾃｽﾄ')).toEqual(terms('テスト'))
  })

  it('passes over soft hyphens and marks of direction', () => {
    expect(terms('co\u00adop\u200ferate')).toEqual(terms('cooperate'))
  })

  it('cuts long words alike in index and query', () => {
    const long = 'x'.repeat(1_000_000)
    expect(terms(long)).toEqual(terms(`${long}y`))
    expect(terms(`é${'𐐀'.repeat(500)}`).every((term) => term.isWellFormed())).toBe(true)
  })

  it('folds texts that are compared whole: case, marks, white space', () => {
    expect(analyzer.fold('  Crème \n Brûlée  (2) ')).toBe('creme brulee (2)')
    expect(analyzer.fold('In-Progress')).toBe('in-progress')
    expect(analyzer.fold('ＡＢＣ　東京')).toBe('abc 東京')
  })

  it('emits only what the index can hold, at positions without gaps, and never throws', () => {
    const wild = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.string({ unit: 'grapheme', maxLength: 60 }),
      fc.stringMatching(/^[a-zA-Z_'’ -]{0,60}$/),
      fc
        .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 60 })
        .map((codes) => String.fromCharCode(...codes)),
    )
    fc.assert(
      fc.property(wild, fc.constantFrom<TextField>('body', 'slug'), (text, field) => {
        let last = -1
        for (const { term, position, surface } of emitted(text, field)) {
          expect(position === last || position === last + 1).toBe(true)
          last = position
          expect(term).not.toBe('')
          expect(Buffer.byteLength(term)).toBeLessThanOrEqual(255)
          expect([...term, ...surface].every((character) => character >= ' ')).toBe(true)
          // A surface leads to the term in the index.
          if (surface !== '') expect(analyzer.termsOf(surface)[0]!.term).toBe(term)
        }
        expect(analyzer.fold(analyzer.fold(text))).toBe(analyzer.fold(text))
      }),
      { numRuns: propertyRuns(2_000) },
    )
  })
})

describe('every engine', () => {
  it('has the classes of the frozen table where Unicode 14 had the characters', () => {
    const samples: [number, number][] = [
      ...[
        [0xe9, letter],
        [0x414, letter],
        [0x645, letter],
        [0x939, letter],
        [0x2603, pictograph],
        [0x2bc, separator],
        [0x200b, separator],
      ],
      ...[
        [0x6771, paired],
        [0x3042, paired],
        [0xac00, paired],
        [0x2070e, paired],
        [0x1f600, pictograph],
        [0x1f3fb, separator],
        [0xfe0f, ignored],
      ],
      // Given out after Unicode 14: Kawi, an ideograph, and a pictograph.
      ...[
        [0x11f04, separator],
        [0x31350, paired],
        [0x1fae8, pictograph],
      ],
    ] as [number, number][]
    for (const [code, kind] of samples) expect([code, classOf(code)]).toEqual([code, kind])
  })

  it('reads every character, alone and in seeded mixtures, as the engine on which this was written', () => {
    const hash = createHash('sha256')
    const add = (text: string) => {
      for (const { term, position, surface } of emitted(text)) hash.update(`${position} ${term} ${surface}\n`)
      hash.update(`${analyzer.fold(text)}\n`)
    }
    for (let code = 0; code < 0x110000; code++) add(String.fromCodePoint(code))
    const random = seeded(14)
    for (let i = 0; i < 20_000; i++) {
      const from = Math.floor(random() * 0x3000)
      add(Array.from({ length: 12 }, () => String.fromCharCode(from + Math.floor(random() * 96))).join(''))
    }
    // Version 1 was the same on engines with Unicode 14.0 to 17.0; version 2 folds no characters that it did not fold.
    expect(hash.digest('hex')).toBe('8b163a8b81b83bbaa2001b40bd689c7388615967bb7665a7605e617df6f5f990')
  })
})
