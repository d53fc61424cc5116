/** Parses typed text as words, phrases, prefixes and filters. Everything without another meaning is plain text. */

import { hasSign, wordEnd } from '../analysis/word-end.ts'
import type { Analyzer, ParsedQuery, TextField } from '../contract.ts'
import { decisiveTerm, endsInPair, wordsOf } from './words.ts'

/** The longest part of a query that is read: its time is bounded. */
const queryLengthMax = 20_000
export const queryWordsMax = 256
const queryPhrasesMax = 32
export const queryPrefixesMax = 16
export const queryFiltersMax = 32

const textFields: ReadonlyMap<string, TextField> = new Map([
  ['title', 'title'],
  ['slug', 'slug'],
  ['path', 'path'],
  ['mind_path', 'path'],
  ['body', 'body'],
])

interface Parsing {
  query: ParsedQuery
  analyzer: Analyzer
  isField(name: string): boolean
  /** Words that are there already, by their decisive terms. */
  seen: Set<string>
}

/** Never throws; `isField` says whether the index knows values of a field. */
export function parseQuery(
  text: string,
  analyzer: Analyzer,
  isField: (name: string) => boolean,
): ParsedQuery {
  const query: ParsedQuery = { text, words: [], phrases: [], prefixes: [], filters: [] }
  const parsing: Parsing = { query, analyzer, isField, seen: new Set() }
  const read = text.length > queryLengthMax ? text.slice(0, queryLengthMax) : text
  for (let at = 0; at < read.length; ) {
    if (isSpace(read, at)) at++
    else at = takePhrase(parsing, read, at) ?? takeFilter(parsing, read, at) ?? takePlain(parsing, read, at)
  }
  return query
}

/** The query with the words of these texts as well, each word once. */
export function withPlainWords(
  query: ParsedQuery,
  texts: readonly string[],
  analyzer: Analyzer,
): ParsedQuery {
  const more = { ...query, words: [...query.words], prefixes: [...query.prefixes] }
  const seen = new Set(query.words.map(decisiveTerm))
  for (const text of texts) addPlain({ query: more, analyzer, isField: () => false, seen }, text)
  return more
}

/** Each returns where to go on, or undefined where the text does not begin what it takes. */
function takePhrase(parsing: Parsing, text: string, at: number): number | undefined {
  const end = quoteEnd(text, at)
  if (end === undefined) return undefined
  const inner = text.slice(at + 1, end)
  const words = wordsOf(inner, parsing.analyzer)
  const { phrases } = parsing.query
  // A single character of a script without spaces is found as a beginning only.
  const isLone = words.length === 1 && words[0]!.lone
  if (isLone || phrases.length >= queryPhrasesMax) addPlain(parsing, inner)
  else if (words.length > 0) {
    phrases.push({ text: inner, words: words.slice(0, queryWordsMax).map(({ word }) => word) })
  }
  return end + 1
}

function takeFilter(parsing: Parsing, text: string, at: number): number | undefined {
  const colon = nameEnd(text, at)
  if (colon === undefined || parsing.query.filters.length >= queryFiltersMax) return undefined
  const name = text.slice(at, colon)
  const textField = textFields.get(name)
  const field = textField ? undefined : valueField(name, parsing.isField)
  if (!textField && field === undefined) return undefined
  const quote = quoteEnd(text, colon + 1)
  const end = quote ?? spaceAfter(text, colon + 1)
  const value = text.slice(colon + (quote === undefined ? 1 : 2), end)
  const next = quote === undefined ? end : end + 1
  if (!textField) {
    parsing.query.filters.push({ kind: 'value', field: field!, text: value })
    return next
  }
  const words = wordsOf(value, parsing.analyzer).map(({ word }) => word)
  if (words.length === 0) return undefined
  const taken = words.slice(0, queryWordsMax)
  parsing.query.filters.push({ kind: 'words', field: textField, text: value, words: taken })
  return next
}

function takePlain(parsing: Parsing, text: string, at: number): number {
  const end = spaceAfter(text, at)
  let plain = text.slice(at, end)
  const star = plain.length - 1
  if (star > 0 && plain[star] === '*') plain = takePrefix(parsing, plain.slice(0, star))
  addPlain(parsing, plain)
  return end
}

/** Takes the last word for a prefix and returns the text before it. */
function takePrefix({ query, analyzer }: Parsing, text: string): string {
  const start = lastWordStart(text)
  const last = wordsOf(text.slice(start), analyzer).at(-1)
  if (!last?.word.surface || endsInPair(last) || query.prefixes.length >= queryPrefixesMax) return text
  const name = decisiveTerm(last.word)
  query.prefixes.push({ text: text.slice(start), prefix: hasSign(name) ? name : last.word.surface })
  return text.slice(0, start)
}

/** Where the word begins that ends the text; the length of the text where none does. */
function lastWordStart(text: string): number {
  for (let at = 0; at < text.length; ) {
    const end = wordEnd(text, at)
    if (end === text.length) return at
    at = Math.max(end, at + 1)
  }
  return text.length
}

function addPlain({ query, analyzer, seen }: Parsing, text: string): void {
  for (const { word, lone } of wordsOf(text, analyzer)) {
    const term = decisiveTerm(word)
    if (seen.has(term)) continue
    seen.add(term)
    if (lone && query.prefixes.length < queryPrefixesMax)
      query.prefixes.push({ text: word.text, prefix: term })
    else if (query.words.length < queryWordsMax) query.words.push(word)
  }
}

function valueField(name: string, isField: (name: string) => boolean): string | undefined {
  const field = name === 'tag' ? 'tags' : name
  if (isField(field)) return field
  return isField(name) ? name : undefined
}

/** The colon after a name that a value follows at once. */
function nameEnd(text: string, at: number): number | undefined {
  for (let i = at; i < text.length && i - at <= nameLengthMax; i++) {
    const character = text[i]
    if (character === '"' || isSpace(text, i)) return undefined
    if (character !== ':') continue
    return i > at && i + 1 < text.length && !isSpace(text, i + 1) ? i : undefined
  }
  return undefined
}

const nameLengthMax = 128

/** The closing quote of the one at this place. */
function quoteEnd(text: string, at: number): number | undefined {
  const end = text[at] === '"' ? text.indexOf('"', at + 1) : -1
  return end === -1 ? undefined : end
}

function spaceAfter(text: string, at: number): number {
  let end = at
  while (end < text.length && !isSpace(text, end)) end++
  return end
}

function isSpace(text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  return code <= 32 || code === 0xa0 || code === 0x3000 || (code >= 0x2000 && code <= 0x200a)
}
