/** Markdown of answers: texts of others are inline code, where a name calls nobody and nothing is a link or a heading. */

import { plural } from '#lib/plural.ts'
import { type Found, noteNumber } from './memory.ts'

const shownMax = 100
/** Longer texts are cut before anything looks at them. */
const scannedMax = 4_000

/** One line, cut, without the marks that would end the code. */
export function quoted(text: string, lengthMax = shownMax): string {
  const plain = text.slice(0, scannedMax).replaceAll('`', "'").replace(/\s+/g, ' ').trim()
  const letters = [...plain]
  return `\`${letters.length > lengthMax ? `${letters.slice(0, lengthMax).join('')}…` : plain || '-'}\``
}

/** A link to a page of the console whose text is of others. */
export function link(text: string, path: string): string {
  return `[${quoted(text)}](${path})`
}

/** The address of a page of the console, below the main API. */
export function pagePath(page: string, id?: string, query: Readonly<Record<string, string>> = {}): string {
  const filters = Object.entries(query).map(([name, value]) => `${name}=${encoded(value)}`)
  const path = id === undefined ? page : `${page}/${encoded(id)}`
  return `/console/${path}${filters.length > 0 ? `?${filters.join('&')}` : ''}`
}

/** Parentheses would end the target of a link. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[()'*!]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16)}`,
  )
}

/** `no records`, `1 record`, `2 records`. */
export function counted(count: number, one: string): string {
  return count === 0 ? `no ${one}s` : plural(count, one)
}

/** `a, b and c`; of a long list the beginning, and how many more there are. */
export function listed(names: readonly string[], namesMax = 20): string {
  const more = names.length - namesMax
  const parts = more > 0 ? [...names.slice(0, namesMax), `${more} more`] : names
  return parts.length < 2 ? (parts[0] ?? '') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`
}

export function bullets(lines: readonly string[]): string {
  return lines.map((line) => `- ${line}`).join('\n')
}

/** The first sentence about records. */
export function headOf(found: readonly Found[] | undefined, collections: readonly string[]): string {
  if (found === undefined) return ''
  if (found.length === 0)
    return `**Nothing in ${listed(collections.map((name) => quoted(name)))} speaks of it.** ${weaker}`
  const counts = [...Map.groupBy(found, ({ collection }) => collection)].map(
    ([name, those]) => `${name} (${those.length})`,
  )
  return `**${plural(found.length, 'record')} ${found.length === 1 ? 'speaks' : 'speak'} of it**, in ${listed(counts)}.`
}

export const weaker = `Weaker matches are in [the console's search](${pagePath('search')}).`

/** A numbered list, which conclusions read; the passage of a record is below it. */
export function recordsOf(found: readonly Found[] = [], passageMax: number): string {
  return found
    .map((record, n) => {
      const { collection, score, title, path, text } = record
      const place = path === undefined ? '' : `, ${quoted(path)}`
      const passage = passageMax > 0 && text !== undefined ? `\n   ${passageOf(title, text, passageMax)}` : ''
      return `${n + 1}. ${link(title, pageOf(record))} (score ${score.toFixed(2)}, ${collection}${place})${passage}`
    })
    .join('\n')
}

/** The beginning of a text, without its title. */
function passageOf(title: string, text: string, lengthMax: number): string {
  const plain = text.replace(/^\s*#+\s+/, '').trim()
  const rest = plain.startsWith(title) ? plain.slice(title.length).trim() : plain
  return quoted(rest || plain, lengthMax)
}

function pageOf(record: Found): string {
  const note = noteNumber(record)
  if (note !== undefined) return pagePath('notes', String(note))
  return pagePath('search', undefined, { in: record.collection, like: record.id })
}

/** Records that follow what an agent says by its role. */
export function briefly(found: readonly Found[] | undefined): string[] {
  return found && found.length > 0 ? ['About the question itself:', recordsOf(found, 0)] : []
}
