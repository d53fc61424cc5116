/** Real text for the tour: the Markdown documents below node_modules. */

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface TourDocument {
  /** Its beginning is the tour's own: no other tour has it. */
  id: string
  title: string
  path: string
  text: string
}

const packages = fileURLToPath(new URL('../../node_modules/', import.meta.url))
const textCharactersMax = 8_000
const textCharactersMin = 400
const frontMatter = /^\ufeff?---[ \t]*\r?\n(?:[\s\S]*?\n)??---[ \t]*(?:\r?\n|$)/
/** Up to the line that closes it, else to the end of the text. */
const codeFence = /^ {0,3}(`{3,}(?=[^`\r\n]*\r?$)|~{3,})[\s\S]*?(?:^ {0,3}\1[`~]*[ \t]*\r?$|$(?![\s\S]))/gm

/** At most `max` documents of different content, in a stable order; `prefix` is put before their ids. */
export function findDocuments(max: number, prefix: string): TourDocument[] {
  const documents = new Map<string, TourDocument>()
  for (const path of markdownFiles(packages)) {
    const text = readFileSync(path, 'utf8').slice(0, textCharactersMax).toWellFormed().replaceAll('\0', '')
    if (text.length < textCharactersMin) continue
    const id = `${prefix}-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
    const shownPath = relative(join(packages, '..'), path)
    if (!documents.has(id)) documents.set(id, { id, title: titleOf(text, shownPath), path: shownPath, text })
    if (documents.size === max) break
  }
  return [...documents.values()]
}

/** READMEs first: they say what a package is for. */
function markdownFiles(folder: string): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(
      (entry) => entry.isFile() && /\.md$/i.test(entry.name) && !/^(licen[cs]e|changelog)/i.test(entry.name),
    )
    .map((entry) => join(entry.parentPath, entry.name))
  const rank = (path: string) => (/readme\.md$/i.test(path) ? 0 : 1)
  return files.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
}

/** The first heading, else the path: front matter, code and comments have none. */
export function titleOf(text: string, path: string): string {
  const prose = text
    .replace(frontMatter, '')
    .replace(/^\ufeff/, '')
    .replace(codeFence, '')
    .replace(/<!--[\s\S]*?-->/g, '')
  const line = /^ {0,3}#{1,6}[ \t]+(.+)/m.exec(prose)?.[1] ?? ''
  const heading = line
    .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/<[^>]*>|[#*`![\]]/g, '')
    .trim()
    .slice(0, 120)
  return heading || path
}
