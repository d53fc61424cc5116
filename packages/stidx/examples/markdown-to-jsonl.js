/** Turns a folder of Markdown into JSON lines for `index-jsonl`, one line a file. Runs on any Node from 20 on. */

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join, relative, sep } from 'node:path'

const frontMatter = /^---[ \t]*\r?\n(?:[\s\S]*?\n)??---[ \t]*(?:\r?\n|$)/
/** Up to the line that closes it, else to the end of the file. */
const codeFence = /^ {0,3}(`{3,}(?=[^`\r\n]*\r?$)|~{3,})[\s\S]*?(?:^ {0,3}\1[`~]*[ \t]*\r?$|$(?![\s\S]))/gm
const comment = /<!--[\s\S]*?-->/g
const heading = /^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*\r?$/m

const folder = process.argv[2]
if (folder === undefined) {
  process.stderr.write('Usage: node markdown-to-jsonl.js FOLDER > records.jsonl\n')
  process.exit(2)
}
for (const file of markdownBelow(folder)) process.stdout.write(`${JSON.stringify(recordOf(file))}\n`)

function* markdownBelow(path) {
  const entries = readdirSync(path, { withFileTypes: true })
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const below = join(path, entry.name)
    if (entry.isDirectory() && entry.name !== 'node_modules' && !entry.name.startsWith('.'))
      yield* markdownBelow(below)
    else if (entry.isFile() && /\.(md|markdown)$/i.test(entry.name)) yield below
  }
}

/** Without an id: `index-jsonl` makes one of the path, the same at every run. */
function recordOf(file) {
  const body = readFileSync(file, 'utf8').replace(/^\ufeff/, '')
  const slug = basename(file).replace(/\.\w+$/, '')
  return {
    title: titleOf(body) || slug,
    slug,
    path: relative(folder, file).split(sep).join('/'),
    updated_at: statSync(file).mtime.toISOString(),
    body,
  }
}

/** The one of the front matter, else the first heading: code and comments have none. */
function titleOf(body) {
  const [matter = ''] = frontMatter.exec(body) ?? []
  const prose = body.slice(matter.length).replace(codeFence, '').replace(comment, '')
  const named = /^title:[ \t]*(['"]?)(.*?)\1[ \t]*\r?$/m.exec(matter)?.[2]
  return (named || heading.exec(prose)?.[1])?.trim()
}
