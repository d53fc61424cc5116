/** The corpus of the tour: the platform's own pages, cut into sections. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AppError } from '#lib/errors.ts'

export interface TourDocument {
  /** `docs/<page>#<heading>`: the same in every tour, so that a later one replaces it. */
  id: string
  /** `Page: heading`. */
  title: string
  /** From the project's folder, with the heading's anchor. */
  path: string
  text: string
}

const root = dirname(fileURLToPath(new URL('../../package.json', import.meta.url)))
const textCharactersMax = 4_000
/** A heading alone finds nothing. */
const textCharactersMin = 80
const fence = /^ {0,3}(```|~~~)/
const headingLine = /^(#{1,3})[ \t]+(.+?)[ \t#]*$/

/** Every section of README.md, ARCHITECTURE.md and docs/*.md. Throws AppError `not_found` where there are none. */
export function readCorpus(): TourDocument[] {
  const pages = existsSync(join(root, 'docs')) ? readdirSync(join(root, 'docs')).toSorted() : []
  const docs = pages.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)
  const paths = ['README.md', 'ARCHITECTURE.md', ...docs].filter((path) => existsSync(join(root, path)))
  const documents = paths.flatMap((path) => sectionsOf(path, readFileSync(join(root, path), 'utf8')))
  if (documents.length > 0) return documents
  throw new AppError('not_found', `There are no pages in ${join(root, 'docs')}: take the tour in a clone.`)
}

/** A section is a heading of level one to three and the text below it; headings in code are none. */
export function sectionsOf(path: string, markdown: string): TourDocument[] {
  const page = basename(path, '.md').toLowerCase()
  const sections: { heading: string; lines: string[] }[] = []
  let inFence = false
  for (const line of markdown.split(/\r?\n/)) {
    if (fence.test(line)) inFence = !inFence
    const heading = inFence ? undefined : headingLine.exec(line)?.[2]
    if (heading !== undefined) sections.push({ heading: plainOf(heading), lines: [] })
    else sections.at(-1)?.lines.push(line)
  }
  const pageTitle = sections[0]?.heading ?? page
  const slugs = new Map<string, number>()
  return sections.flatMap(({ heading, lines }) => {
    const slug = slugOf(heading)
    const times = slugs.get(slug) ?? 0
    slugs.set(slug, times + 1)
    const anchor = times === 0 ? slug : `${slug}-${times}`
    const text = lines.join('\n').trim().slice(0, textCharactersMax).toWellFormed()
    if (text.length < textCharactersMin) return []
    const title = heading === pageTitle ? heading : `${pageTitle}: ${heading}`
    return [{ id: `docs/${page}#${anchor}`, title, path: `${path}#${anchor}`, text }]
  })
}

function plainOf(heading: string): string {
  return heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[*`]/g, '')
}

/** As GitHub makes anchors. */
function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}
