/** Words that come again while indexing: text and the place of a word in, the terms that were made of it out. */

import type { WordTerm } from '../contract.ts'
import { afterPossessive, wordEnd } from './word-end.ts'
import { isAsciiWordCode, termsOfWord } from './word-terms.ts'

/** Words held; when there are more it begins anew. */
const wordsMax = 1 << 17
const slots = 1 << 19
/** Longer ones seldom come again. */
const lengthMax = 40
/** Shorter pieces are copies already. */
const pieceLengthMin = 13

interface Memory {
  /** By the hash of a word, its number and 1; 0 where there is none. */
  table: Int32Array
  words: string[]
  terms: (readonly WordTerm[])[]
}

let memory: Memory | undefined

/** 1 for letters, digits and the underscore. */
const asciiWord = new Uint8Array(128)
for (let code = 48; code < 123; code++) asciiWord[code] = isAsciiWordCode(code) ? 1 : 0

/**
 * Gives the terms of each word. A table of its own, because a Map would need every word cut out of its text before it
 * can be asked; hashed while its end is looked for.
 */
export function eachRemembered(text: string, take: (terms: readonly WordTerm[]) => void): void {
  for (let at = 0; at < text.length; ) {
    const start = at
    let hash = 0
    let code = text.charCodeAt(at)
    while (code < 0x80 && asciiWord[code] === 1) {
      hash = (Math.imul(hash, 31) + code) | 0
      // Not a number behind the end: the comparison is false.
      code = text.charCodeAt(++at)
    }
    if (code > 0x7f) {
      const end = wordEnd(text, at)
      for (; at < end; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0
    }
    if (at === start) {
      at++
      continue
    }
    take(at - start > lengthMax ? termsOfWord(text.slice(start, at)) : remembered(text, start, at, hash))
    at = afterPossessive(text, at)
  }
}

function remembered(text: string, start: number, end: number, hash: number): readonly WordTerm[] {
  memory ??= { table: new Int32Array(slots), words: [], terms: [] }
  return find(memory, text, start, end, hash)
}

function find(held: Memory, text: string, start: number, end: number, hash: number): readonly WordTerm[] {
  const { table, words, terms } = held
  let slot = (hash ^ (hash >>> 15)) & (slots - 1)
  for (let number = table[slot]!; number !== 0; number = table[slot]!) {
    if (isWord(words[number - 1]!, text, start, end)) return terms[number - 1]!
    slot = (slot + 1) & (slots - 1)
  }
  const word = copyOf(text.slice(start, end))
  const made = termsOfWord(word)
  if (words.length === wordsMax) {
    table.fill(0)
    words.length = 0
    terms.length = 0
    slot = (hash ^ (hash >>> 15)) & (slots - 1)
  }
  words.push(word)
  terms.push(made)
  table[slot] = words.length
  return made
}

/** Lets go of all words. */
export function forgetWords(): void {
  memory = undefined
}

/** A long piece of a string keeps the whole string in memory, and with it the text of a record for each word. */
function copyOf(piece: string): string {
  return piece.length < pieceLengthMin ? piece : ` ${piece}`.slice(1)
}

function isWord(word: string, text: string, start: number, end: number): boolean {
  if (word.length !== end - start) return false
  for (let i = 0; i < word.length; i++) if (word.charCodeAt(i) !== text.charCodeAt(start + i)) return false
  return true
}
