/** Finds the beginnings that so many words share that a search had better not join their lists itself. */

import { termBytesMax } from '../format.ts'

/** To read a word of the lexicon and to open its list takes about as long as so many postings. */
const postingsPerWord = 64

/** Goes through the words of the lexicon in their order; texts are UTF-8 bytes, one character each. */
export class BroadBeginnings {
  readonly #from: number
  readonly #found: string[] = []
  #word = ''
  /** By length, of the beginnings of the word met last: the work of joining their words, and that of the greatest. */
  readonly #work = new Float64Array(termBytesMax + 1)
  readonly #greatest = new Float64Array(termBytesMax + 1)

  /** `from`: the work that is too much, in postings. */
  constructor(from: number) {
    this.#from = from
  }

  /** `count`: how often the word was met. */
  add(word: string, count: number): void {
    let shared = 0
    while (shared < word.length && word.charCodeAt(shared) === this.#word.charCodeAt(shared)) shared++
    this.#leave(shared)
    this.#word = word
    this.#add(word.length, count + postingsPerWord, count + postingsPerWord)
  }

  /** By rising bytes. */
  finish(): string[] {
    this.#leave(0)
    return this.#found.sort()
  }

  /** No more words come with the beginnings that are longer than this. */
  #leave(length: number): void {
    for (let end = this.#word.length; end > length; end--) {
      const work = this.#work[end]!
      const greatest = this.#greatest[end]!
      // A single list is read as quickly as a joined one would be.
      if (work - greatest >= this.#from && isWhole(this.#word, end))
        this.#found.push(this.#word.slice(0, end))
      this.#add(end - 1, work, greatest)
      this.#work[end] = 0
      this.#greatest[end] = 0
    }
  }

  #add(length: number, work: number, greatest: number): void {
    this.#work[length]! += work
    this.#greatest[length] = Math.max(this.#greatest[length]!, greatest)
  }
}

/** Whether no character is torn apart there. */
function isWhole(word: string, end: number): boolean {
  return end === word.length || (word.charCodeAt(end) & 0xc0) !== 0x80
}
