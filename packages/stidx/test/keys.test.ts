/** The parts of a build that hold no objects: numbers of words, keys and their order, hashes of mistyped forms. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { WordNumbers } from '../src/analysis/word-numbers.ts'
import { crc32, crc32OfText } from '../src/build/checksum.ts'
import { eachDeletionHash } from '../src/build/deletion-hashes.ts'
import { KeyTable, noKey } from '../src/build/keys.ts'
import { deletionsOf, hasDeletions } from '../src/deletions.ts'
import { seededRandom } from './support/index.ts'

const timeout = 120_000

function wordsOf(numbers: WordNumbers, text: string): number[] {
  const found: number[] = []
  numbers.begin(text)
  for (let count = numbers.next(); count > 0; count = numbers.next()) {
    found.push(...numbers.found.subarray(0, count))
  }
  return found
}

describe('numbers of words', { timeout }, () => {
  it('are the same for the same word, rise for new ones, and begin again when all is forgotten', () => {
    const numbers = new WordNumbers()
    expect(wordsOf(numbers, "one two, one's ONE café two")).toEqual([0, 1, 0, 2, 3, 1])
    expect(numbers.fresh).toEqual(['one', 'two', 'ONE', 'café'])
    expect(wordsOf(numbers, 'café')).toEqual([3])
    numbers.forget()
    expect(wordsOf(numbers, 'café one')).toEqual([0, 1])
  })

  it('hold through any number of words and texts longer than one batch', () => {
    const numbers = new WordNumbers()
    const text = Array.from({ length: 120_000 }, (_, i) => `w${i % 60_000}`).join(' ')
    expect(wordsOf(numbers, text)).toEqual(Array.from({ length: 120_000 }, (_, i) => i % 60_000))
    expect(numbers.count).toBe(60_000)
  })

  it('are given to a long word again each time', () => {
    const long = 'x'.repeat(41)
    expect(wordsOf(new WordNumbers(), `${long} a ${long}`)).toEqual([0, 1, 2])
  })
})

describe('keys', { timeout }, () => {
  const add = (keys: KeyTable, text: string) => {
    keys.put(text)
    return keys.end()
  }

  it('have one number for the same bytes, however they are put together, and none when too long or empty', () => {
    const keys = new KeyTable()
    expect([add(keys, 'ab'), add(keys, 'é'), add(keys, '')]).toEqual([0, 1, noKey])
    keys.put('a')
    keys.put('b')
    expect(keys.end()).toBe(0)
    expect(add(keys, 'x'.repeat(256))).toBe(noKey)
    expect(add(keys, `${'é'.repeat(127)}x`)).toBe(2)
    expect(keys.textOf(1)).toBe('Ã©')
  })

  it('are ordered by their bytes, zeros and shared beginnings included', () => {
    const random = seededRandom(3)
    const pieces = [
      'a',
      'b',
      '\u0000',
      'abcde',
      'é',
      '東',
      '\u0001id\u0000STIDX001-',
      '\u0000\u0000\u0000\u0000\u0000',
    ]
    const texts = new Set<string>()
    while (texts.size < 20_000) {
      const length = 1 + Math.floor(random() ** 2 * 12)
      texts.add(Array.from({ length }, () => pieces[Math.floor(random() * pieces.length)]!).join(''))
    }
    for (let length = 1; length < 200; length++) texts.add('\u0000'.repeat(length))
    const keys = new KeyTable()
    for (const text of texts) add(keys, text)
    const ordered = [...keys.order()].map((number) => Buffer.from(keys.textOf(number), 'latin1').toString())
    const expected = [...texts].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    expect(ordered).toEqual(expected)
  })
})

describe('hashes of mistyped forms', { timeout }, () => {
  it('are those of the word and of its forms with one letter left away', () => {
    const surfaces = fc.oneof(
      fc.stringMatching(/^[a-c]{1,26}$/),
      fc.string({ unit: 'grapheme', maxLength: 12 }),
    )
    fc.assert(
      fc.property(surfaces, (surface) => {
        const hashes: number[] = []
        const bytes = Buffer.from(surface).toString('latin1')
        eachDeletionHash(bytes, (hash) => hashes.push(hash))
        const forms = hasDeletions(surface) ? [...deletionsOf(surface)] : []
        expect(hashes.sort()).toEqual(forms.map((form) => crc32(form)).sort())
      }),
    )
  })

  it('are made by the same checksum as everything else', () => {
    for (const text of ['', 'a', 'whale', 'café', '東京']) expect(crc32OfText(text)).toBe(crc32(text))
  })
})
