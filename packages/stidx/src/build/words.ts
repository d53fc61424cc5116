/** Collects the postings of the words of texts, and how often each word occurs as it is written. */

import { WordNumbers } from '../analysis/word-numbers.ts'
import type { Analyzer, WordTerm } from '../contract.ts'
import { surfacePrefix, termBytesMax } from '../format.ts'
import { grown } from './growing.ts'
import { noKey } from './keys.ts'
import type { Postings } from './postings.ts'

/** The state of a word in adjacent numbers. Most words have one term and nothing else. */
const wordSize = 8
/** Keys: of its first term, of the exact form of that, of its surface. */
const termAt = 0
const exactAt = 1
const surfaceAt = 2
/** How many positions it takes, and how often it was met. */
const opensAt = 3
const metAt = 4
/** Its further terms: from where to where in `#more`, the same three keys each, and whether it opens a position. */
const moreAt = 5
const moreEndAt = 6
const moreSize = 4
const opensOneAt = 3

/** The number of a key; `noKey` where it has too many bytes. */
export type KeyOf = (prefix: string, text: string, bytesMax: number) => number

export class WordCounter {
  readonly #analyzer: Analyzer
  readonly #keyOf: KeyOf
  readonly #postings: Postings
  readonly #numbers = new WordNumbers()
  #words = new Int32Array(wordSize << 12)
  #count = 0
  #more = new Int32Array(1 << 10)
  #moreFilled = 0

  constructor(analyzer: Analyzer, keyOf: KeyOf, postings: Postings) {
    this.#analyzer = analyzer
    this.#keyOf = keyOf
    this.#postings = postings
  }

  /** Different words. */
  get count(): number {
    return this.#count
  }

  /** All words of a field (0 to 3) of a record; `isName`: with their exact forms. Returns the number of positions. */
  add(text: string, record: number, field: number, isName: boolean): number {
    const numbers = this.#numbers
    const { found } = numbers
    let positions = 0
    numbers.begin(text)
    for (let count = numbers.next(); count > 0; count = numbers.next()) {
      if (numbers.fresh.length > 0) this.#takeFresh(numbers.fresh)
      for (let i = 0; i < count; i++)
        positions += this.#addWord(found[i]! * wordSize, record, field, positions, isName)
    }
    return positions
  }

  /** How often each surface was met, by its key. */
  addSurfaces(counts: Uint32Array): void {
    const words = this.#words
    for (let at = 0; at < this.#count * wordSize; at += wordSize) {
      const met = words[at + metAt]!
      if (words[at + surfaceAt] !== noKey) counts[words[at + surfaceAt]!]! += met
      for (let more = words[at + moreAt]!; more < words[at + moreEndAt]!; more += moreSize) {
        if (this.#more[more + surfaceAt] !== noKey) counts[this.#more[more + surfaceAt]!]! += met
      }
    }
  }

  forget(): void {
    this.#numbers.forget()
    this.#count = 0
    this.#moreFilled = 0
  }

  /** Returns the number of its positions; `position` is the first of them. */
  #addWord(at: number, record: number, field: number, position: number, isName: boolean): number {
    const words = this.#words
    words[at + metAt]!++
    this.#addTerm(words, at, record, field, position, isName)
    let last = position
    for (let more = words[at + moreAt]!; more < words[at + moreEndAt]!; more += moreSize) {
      last += this.#more[more + opensOneAt]!
      this.#addTerm(this.#more, more, record, field, last, isName)
    }
    return words[at + opensAt]!
  }

  #addTerm(
    keys: Int32Array,
    at: number,
    record: number,
    field: number,
    position: number,
    isName: boolean,
  ): void {
    if (keys[at + termAt] !== noKey) this.#postings.add(keys[at + termAt]!, record, field, position)
    // So that a name is found as it is written before others that share its stem.
    if (isName && keys[at + exactAt] !== noKey)
      this.#postings.add(keys[at + exactAt]!, record, field, position)
  }

  #takeFresh(fresh: string[]): void {
    for (const word of fresh) {
      const terms = this.#analyzer.termsOfWord(word)
      const at = this.#count++ * wordSize
      this.#words = grown(this.#words, at + wordSize - 1)
      this.#words.fill(noKey, at, at + wordSize)
      this.#words[at + metAt] = 0
      this.#words[at + opensAt] = terms.filter(({ opens }) => opens).length
      if (terms.length > 0) this.#setTerm(this.#words, at, terms[0]!)
      this.#words[at + moreAt] = this.#moreFilled
      for (const term of terms.slice(1)) {
        this.#more = grown(this.#more, this.#moreFilled + moreSize - 1)
        this.#setTerm(this.#more, this.#moreFilled, term)
        this.#more[this.#moreFilled + opensOneAt] = term.opens ? 1 : 0
        this.#moreFilled += moreSize
      }
      this.#words[at + moreEndAt] = this.#moreFilled
    }
    fresh.length = 0
  }

  /** The prefix of a surface takes one of the bytes that a key may have. */
  #setTerm(keys: Int32Array, at: number, { term, surface, exact }: WordTerm): void {
    const bytesMax = termBytesMax - surfacePrefix.length
    keys[at + termAt] = this.#keyOf('', term, bytesMax)
    keys[at + exactAt] = exact === null ? noKey : this.#keyOf('', exact.term, bytesMax)
    keys[at + surfaceAt] = surface === '' ? noKey : this.#keyOf(surfacePrefix, surface, termBytesMax)
  }
}
