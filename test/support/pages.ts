/** The code blocks of the project's Markdown pages, for tests that run what the pages say. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface CodeBlock {
  /** The word behind the fence: sh, ts, py … */
  language: string
  code: string
  /** The heading above it, without its marks. */
  heading: string
}

export const projectFolder = fileURLToPath(new URL('../../', import.meta.url))

/** Every fenced block of a page, in order. */
export function codeBlocks(page: string): CodeBlock[] {
  const text = readFileSync(join(projectFolder, page), 'utf8')
  let heading = ''
  return [...text.matchAll(/^(#+) (.*)$|^```(\w*)\n([\s\S]*?)^```$/gm)].flatMap(
    ([, mark, title = '', language = '', code = '']) => {
      if (mark === undefined) return [{ language, code, heading }]
      heading = title
      return []
    },
  )
}

/** The blocks of one section in one language. */
export function blocksOf(page: CodeBlock[], heading: string, language: string): string[] {
  const found = page.filter((block) => block.heading === heading && block.language === language)
  return found.map(({ code }) => code)
}
