/** Words that are easily lost: apostrophes in any form, zero width spaces, emoji, names that end with a sign. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import { analyzer } from '../src/analysis/analyzer.ts'
import { afterPossessive, wordEnd } from '../src/analysis/word-end.ts'
import { WordNumbers } from '../src/analysis/word-numbers.ts'
import { parseQuery } from '../src/query/parse.ts'
import { buildFrom, seededRandom } from './support/index.ts'

/** `position term`, as an index has it. */
function emitted(text: string): string[] {
  const found: string[] = []
  analyzer.analyzeField(text, 'body', (term, position) => found.push(`${position} ${term}`))
  return found
}

const terms = (text: string) => emitted(text).map((one) => one.slice(one.indexOf(' ') + 1))

/** The ids that a query finds in these texts, `a` being the first. */
function find(texts: readonly string[], query: string): string[] {
  const records = texts.map((body, i) => ({ id: String.fromCharCode(97 + i), body }))
  const index = buildFrom(records).open()
  const { results, relaxed } = index.search(query)
  index.close()
  return [...results.map(({ id }) => id), ...(relaxed ? ['relaxed'] : [])]
}

describe('apostrophes', () => {
  const forms = [...'’ʼʻʽʾʿʹ‘‛′´`＇ꞌ']

  it.each(forms)('%s separates as the one of ASCII', (form) => {
    expect(terms(`під${form}їзд`)).toEqual(terms("під'їзд"))
    expect(terms(`Prandtl${form}s wing`)).toEqual(['prandtl', 'wing'])
    expect(terms(`rock ${form}n${form} roll`)).toEqual(['rock', 'n', 'roll'])
  })

  it('are one and the same where titles and values are compared whole', () => {
    const forFolding = forms.filter((form) => form !== '`')
    for (const form of forFolding) expect(analyzer.fold(`O${form}Neil`)).toBe("o'neil")
    const index = buildFrom([{ id: 'uk', title: 'під’їзд закрито' }]).open()
    expect(index.search('підʼїзд закрито').results[0]!.score).toBeGreaterThan(10_000)
  })

  it('within a compatibility character separate, too', () => {
    expect(terms('ŉ')).toEqual(['n'])
  })
})

describe('characters without width', () => {
  it('that end a word separate words', () => {
    expect(terms('harbour\u200bmaster f\u2061x a\u2063b')).toEqual(['harbour', 'master', 'f', 'x', 'a', 'b'])
    expect(analyzer.fold('Harbour\u200bmaster\u200b')).toBe('harbour master')
  })

  it('that join are ignored, as are variation selectors', () => {
    expect(terms('co\u00adop\u2060er\ufeffate\ufe0f')).toEqual(terms('cooperate'))
    expect(terms('葛\u{e0100}飾')).toEqual(terms('葛飾'))
  })
})

describe('a pictograph', () => {
  it('is a word of its own, whatever is next to it', () => {
    expect(emitted('Deploy🚀done ✓☃♥')).toEqual(['0 deploi', '1 🚀', '2 done', '3 ✓', '4 ☃', '5 ♥'])
    expect(terms('🫨 🩷')).toEqual(['🫨', '🩷'])
  })

  it('is the same with variation selector, skin tone and joiner', () => {
    expect(terms('❤️')).toEqual(terms('❤'))
    expect(terms('👍🏽')).toEqual(terms('👍'))
    expect(terms('👩🏽‍💻')).toEqual(['👩', '💻'])
    expect(terms('\ufe0flove')).toEqual(['love'])
  })

  it('is a flag with both its letters, or with its tags', () => {
    expect(terms('🇺🇦🇩🇪 🇦🇺')).toEqual(['🇺🇦', '🇩🇪', '🇦🇺'])
    const tag = (letter: string) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))
    const [england, scotland] = ['gbeng', 'gbsct'].map((name) => `🏴${[...name].map(tag).join('')}\u{e007f}`)
    expect(terms(`${england}${scotland}`)).toEqual([england, scotland])
    expect(find(['🇦🇺', 'in 🇺🇦 now'], '🇺🇦')).toEqual(['b'])
  })

  it('is found by itself, in phrases, filters and beginnings', () => {
    const texts = ['Deploy 🚀 done', 'Deploy done', '❤️ you']
    expect(find(texts, '🚀')).toEqual(['a'])
    expect(find(texts, '❤')).toEqual(['c'])
    expect(find(texts, '"deploy 🚀"')).toEqual(['a'])
    expect(find(texts, 'body:🚀')).toEqual(['a'])
    expect(find(texts, '🚀*')).toEqual(['a'])
  })

  it('is no currency, arrow, box or sign of print', () => {
    expect(terms('5€ a → b © Flotilla™ ├──')).toEqual(['5', 'a', 'b', 'flotilla'])
  })
})

describe('a name with a sign', () => {
  it('is its word and, at the same position, itself', () => {
    expect(emitted('The C++ of g++, C# and F#.')).toEqual([
      ...['0 the', '1 c', '1 c++', '2 of', '3 g', '3 g++', '4 c', '4 c#', '5 and', '6 f', '6 f#'],
    ])
    expect(terms('C++20 C++/CLI C#言語 Disney+')).toEqual([
      ...['c', 'c++', '20', 'c', 'c++', 'cli', 'c', 'c#', '言語', '語', 'disnei', 'disney+'],
    ])
  })

  it.each(['issue#5', 'a+b', 'a++b', 'x##', 'a+++', '# +', '++i', '#tag', 'é++'])('is not in %s', (text) => {
    expect(terms(text).filter((term) => /[+#]/.test(term))).toEqual([])
  })

  it('comes before others of the same word, and alone counts in phrases and filters', () => {
    const texts = ['writing services in C#', 'a guide to C++ templates', 'templates of C and C']
    expect(find(texts, 'C++')[0]).toBe('b')
    expect(find(texts, 'C++').sort()).toEqual(['a', 'b', 'c'])
    expect(find(texts, 'C#')[0]).toBe('a')
    expect(find(texts, '"C++ templates"')).toEqual(['b'])
    expect(find(texts, '"C# templates"')).toContain('relaxed')
    expect(find(texts, 'body:C#')).toEqual(['a'])
    expect(find(texts, 'C++*')).toEqual(['b'])
    expect(find([...texts, 'C# or C++'], 'C++ C#')[0]).toBe('d')
  })

  it('is another word than its neighbour in one query', () => {
    const { words } = parseQuery('C C++ C# c++', analyzer, () => false)
    expect(words.map(({ text }) => text)).toEqual(['C', 'C++', 'C#'])
  })
})

describe('numbers of words', () => {
  const pieces = [
    ...['C++', 'C#', 'a+b', 'issue#5', "Prandtl's", 'Prandtlʼs', 'слово', 'é+', 'Bob’s', 'x'.repeat(50)],
    ...['東京', '—', '\u200b', ' ', '🚀', '🇺🇦', '🇺', '❤️', '👩🏽‍💻', '++', '#', "'", '\ud800'],
  ]

  /** As the analyser takes them. */
  function wordsIn(text: string): string[] {
    const words: string[] = []
    for (let at = 0; at < text.length; ) {
      const end = wordEnd(text, at)
      if (end > at) words.push(text.slice(at, end))
      at = end > at ? afterPossessive(text, end) : at + 1
    }
    return words
  }

  function numbered(text: string): string[] {
    const numbers = new WordNumbers()
    const names: string[] = []
    const words: string[] = []
    numbers.begin(text)
    for (let count = numbers.next(); count > 0; count = numbers.next()) {
      names.push(...numbers.fresh.splice(0))
      for (const number of numbers.found.subarray(0, count)) words.push(names[number]!)
    }
    return words
  }

  it('are those of the words that the analyser sees', () => {
    const texts = fc.array(fc.constantFrom(...pieces, ' '), { maxLength: 40 }).map((parts) => parts.join(''))
    fc.assert(
      fc.property(texts, (text) => {
        expect(numbered(text)).toEqual(wordsIn(text))
      }),
      { numRuns: propertyRuns(500) },
    )
  })

  it('are the same however long the text is, and wherever a stretch of it ends', () => {
    const random = seededRandom(36)
    const parts = Array.from({ length: 60_000 }, () => pieces[Math.floor(random() * pieces.length)]!)
    const text = `${parts.join('')} ${'y'.repeat(300_000)}++ ${'ж'.repeat(100_000)} ${' '.repeat(200_000)}end`
    const [found, expected] = [numbered(text), wordsIn(text)]
    expect(found.length).toBe(expected.length)
    expect(found.every((word, i) => word === expected[i])).toBe(true)
  }, 60_000)
})
