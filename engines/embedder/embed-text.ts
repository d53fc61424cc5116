/** The two built-in embedders, text by text. */

import { dimensions, embedWords, normalised } from './lexical.ts'
import { openMeaning } from './meaning.ts'

/** By the value of EMBEDDER: the names of their spaces. */
export const builtInSpaces = {
  meaning: 'flotilla-meaning-1',
  lexical: 'flotilla-feature-hashing-1536',
} as const

export type BuiltIn = keyof typeof builtInSpaces

/** How much the words count next to the meaning: cosine = (meaning + weight · words) / (1 + weight). */
const wordsWeight = 0.3
const wordsFactor = Math.sqrt(wordsWeight)
/** Letters below it are Latin ones. */
const latinEnd = 0x250
const ascii = /^[\0-\x7f]*$/

/** The words' vector, with the meaning added onto its first numbers: unrelated directions of so many dimensions hardly meet. */
function embedMeaning(text: string): Float32Array {
  const words = embedWords(text)
  const share = latinShare(text)
  const meaning = share === 0 ? undefined : openMeaning()(text)
  if (meaning === undefined) return words
  const sums = new Float64Array(dimensions)
  for (let n = 0; n < dimensions; n++) sums[n] = words[n]! * wordsFactor
  for (let n = 0; n < meaning.length; n++) sums[n]! += meaning[n]! * share
  return normalised(sums)
}

/** The share of Latin ones among the letters: the table knows no others, and is worse than nothing for them. */
function latinShare(text: string): number {
  if (ascii.test(text)) return /[a-z]/i.test(text) ? 1 : 0
  let letters = 0
  let latin = 0
  for (const letter of text.match(/\p{L}/gu) ?? []) {
    letters += 1
    if (letter.codePointAt(0)! < latinEnd) latin += 1
  }
  return letters === 0 ? 0 : latin / letters
}

/** A unit vector of 1,536 numbers. */
export function embedTextWith(kind: BuiltIn, text: string): Float32Array {
  return kind === 'meaning' ? embedMeaning(text) : embedWords(text)
}
