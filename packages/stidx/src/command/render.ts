/** Renders results for people: columns, highlighted matches, nothing that could control a terminal. */

import { analyzer } from '../analysis/analyzer.ts'
import type { IndexStats, SearchAnswer, SearchHit } from '../contract.ts'
import { parseQuery } from '../query/parse.ts'
import { plain } from './output.ts'

export interface Look {
  /** Columns. */
  width: number
  isColoured: boolean
}

/** An id that was made has 41 characters: `get` needs it whole. */
const idWidthMax = 41
const fieldsWidth = 21

export function renderAnswer(
  answer: SearchAnswer,
  load: (id: string) => Record<string, unknown> | null,
  look: Look,
): string {
  const isMatch = createMatcher(answer)
  const idWidth = Math.min(idWidthMax, Math.max(2, ...answer.results.map(({ id }) => plain(id).length)))
  const titleWidth = Math.max(20, look.width - idWidth - fieldsWidth - 16)
  const lines: string[] = []
  if (answer.results.length > 0) {
    const head = ['SCORE'.padStart(11), 'ID'.padEnd(idWidth), 'FIELDS'.padEnd(fieldsWidth), 'TITLE']
    lines.push(head.join('  '))
  }
  for (const hit of answer.results) {
    const title = cut(plain(hit.title ?? hit.slug ?? hit.path ?? ''), titleWidth)
    const id = cut(plain(hit.id), idWidth).padEnd(idWidth)
    const cells = [hit.score.toFixed(4).padStart(11), id, fieldsOf(hit), highlight(title, isMatch, look)]
    lines.push(cells.join('  ').trimEnd())
    const body = load(hit.id)?.body
    const snippet = typeof body === 'string' ? snippetOf(body, isMatch, look.width - 13) : ''
    if (snippet !== '') lines.push(`${' '.repeat(13)}${highlight(snippet, isMatch, look)}`)
  }
  lines.push(summaryOf(answer))
  return `${lines.join('\n')}\n`
}

export function renderRecord(record: Record<string, unknown>): string {
  const width = Math.max(...Object.keys(record).map((name) => plain(name).length))
  const lines = Object.entries(record).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    const indented = text
      .split(/\r?\n/)
      .map(plain)
      .join(`\n${' '.repeat(width + 2)}`)
    return `${plain(name).padEnd(width)}  ${indented}`.trimEnd()
  })
  return `${lines.join('\n')}\n`
}

export function renderStats(stats: IndexStats): string {
  const { analyzer: by, words, sections, ...rest } = stats
  const flat: Record<string, unknown> = {
    ...rest,
    analyzer: `${by.id} ${by.version}`,
    words: listOf(words),
    sections: listOf(sections),
  }
  const width = Math.max(...Object.keys(flat).map((name) => name.length))
  return `${Object.entries(flat)
    .map(([name, value]) => `${name.padEnd(width)}  ${plain(String(value))}`)
    .join('\n')}\n`
}

function listOf(numbers: Record<string, number>): string {
  return Object.entries(numbers)
    .map(([name, number]) => `${name} ${number}`)
    .join(', ')
}

function fieldsOf(hit: SearchHit): string {
  return hit.matched_fields.join(' ').padEnd(fieldsWidth)
}

function summaryOf({ results, total, took_ms, corrected, relaxed }: SearchAnswer): string {
  const found = total === 0 ? 'nothing found' : `${results.length} of ${total}`
  const instead = Object.entries(corrected ?? {}).map(([typed, used]) => `${plain(typed)} → ${used}`)
  const corrections = instead.length === 0 ? '' : `, corrected: ${instead.join(', ')}`
  const given = relaxed ? ', relaxed: a phrase or filter matched nothing and counts as words' : ''
  return `${found} in ${took_ms} ms${corrections}${given}`
}

/** Whether a word of a text is one that was searched for. */
function createMatcher({ query, corrected }: SearchAnswer): (word: string) => boolean {
  const searched = [query, ...Object.values(corrected ?? {})].map((text) =>
    parseQuery(text, analyzer, () => false),
  )
  const words = searched.flatMap(({ words, phrases, filters }) => [
    ...words,
    ...phrases.flatMap((phrase) => phrase.words),
    ...filters.flatMap((filter) => (filter.kind === 'words' ? filter.words : [])),
  ])
  const terms = new Set(words.flatMap((word) => word.terms.map(({ term }) => term)))
  const prefixes = searched.flatMap((one) => one.prefixes.map(({ prefix }) => prefix))
  return (word) => {
    let matches = false
    analyzer.analyzeField(word, 'body', (term, _position, surface) => {
      matches ||= terms.has(term) || prefixes.some((prefix) => surface.startsWith(prefix))
    })
    return matches
  }
}

/** Made when it is asked for: every start would pay for it, and JSON needs none. */
function wordPattern(): RegExp {
  return /[\p{L}\p{N}\p{M}_]+/gu
}

function highlight(text: string, isMatch: (word: string) => boolean, { isColoured }: Look): string {
  if (!isColoured) return text
  return text.replace(wordPattern(), (word) => (isMatch(word) ? `\u001b[1;33m${word}\u001b[0m` : word))
}

/** The stretch of a text around its first match; '' without a match. */
function snippetOf(text: string, isMatch: (word: string) => boolean, width: number): string {
  const read = plain(text.slice(0, 4096)).replace(/\s+/g, ' ').trim()
  for (const { 0: word, index } of read.matchAll(wordPattern())) {
    if (!isMatch(word)) continue
    const start = index < width / 2 ? 0 : read.indexOf(' ', index - Math.floor(width / 3)) + 1
    const from = Math.min(start, index)
    return cut((from > 0 ? '… ' : '') + read.slice(from), width)
  }
  return ''
}

function cut(text: string, width: number): string {
  if (text.length <= width) return text
  const kept = text.slice(0, width - 1)
  return `${kept.isWellFormed() ? kept : kept.slice(0, -1)}…`
}
