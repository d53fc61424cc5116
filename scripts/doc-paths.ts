/** Paths of the project that texts name: pages in backticks, comments in source with or without. */

/** A path in backticks that begins with a folder of the project. Braces and stars stand for several files: not checked. */
const inBackticks = /`((?:[a-z-]+\/)+[\w.-]*)`/g

const inComment = /(?<![\w./@#:*<{-])((?:[a-z][\w-]*\/)+[\w.-]*\w)(?![\w/*{<…-])/g

/** A source file that is named without its folder. */
const bareName = /(?<![\w./-])([a-z][\w-]*\.tsx?)\b/g

/** Strings and templates are matched so that what looks like a comment within them is passed over. */
const parts = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|(\/\*[\s\S]*?\*\/|\/\/[^\n]*)/g
const sqlParts = /'(?:''|[^'])*'|(--[^\n]*|\/\*[\s\S]*?\*\/)/g

/** Made by a build or an install: not there in a fresh clone. */
const made = /(^|\/)(dist|node_modules)(\/|$)|^console\/src\/schema\.d\.ts$/
/** Any name may be in its place. */
const placeholder = /(^|\/)[A-Z]+$/

export function pathsOfPage(text: string): string[] {
  return [...text.matchAll(inBackticks)].map(([, path = '']) => path).filter((path) => !made.test(path))
}

/** Links of a page to other files and to headings, in order: `path` is '' for the page itself, `anchor` '' for the top. */
export function linksOfPage(text: string): { path: string; anchor: string }[] {
  const found = withoutCode(text).matchAll(/\]\(([^)\s#]*)(?:#([^)\s]*))?\)/g)
  return [...found]
    .map(([, path = '', anchor = '']) => ({ path, anchor }))
    .filter(({ path }) => !/:/.test(path))
}

/** The anchors that GitHub makes of a page's headings. */
export function anchorsOfPage(text: string): Set<string> {
  const headings = withoutCode(text, /^```[\s\S]*?^```$/gm).matchAll(/^#+ (.*)$/gm)
  return new Set(
    [...headings].map(([, heading = '']) =>
      heading
        .trim()
        .toLowerCase()
        .replace(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

function withoutCode(text: string, code = /^```[\s\S]*?^```$|`[^`\n]*`/gm): string {
  return text.replace(code, '')
}

/** The comments of a source file, whose name says its language. */
export function commentsOf(file: string, text: string): string {
  const found = text.matchAll(file.endsWith('.sql') ? sqlParts : parts)
  return [...found].map(([, comment = '']) => comment).join('\n')
}

export function pathsOfComments(comments: string): string[] {
  const found = [...comments.matchAll(inComment)].map(([, path = '']) => path)
  return found.filter((path) => !made.test(path) && !placeholder.test(path))
}

export function namesOfComments(comments: string): string[] {
  return [...comments.matchAll(bareName)].map(([, name = '']) => name)
}
