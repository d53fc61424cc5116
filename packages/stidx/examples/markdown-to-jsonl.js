/** Turns a folder of Markdown into JSON lines for `index-jsonl`, one line a file. Runs on any Node from 20 on. */

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join, relative, sep } from 'node:path'

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
  const body = readFileSync(file, 'utf8')
  const slug = basename(file).replace(/\.\w+$/, '')
  return {
    title: /^#+\s+(.+)/m.exec(body)?.[1]?.trim() ?? slug,
    slug,
    path: relative(folder, file).split(sep).join('/'),
    updated_at: statSync(file).mtime.toISOString(),
    body,
  }
}
