/** The example that turns a folder of Markdown into records: which line becomes the title. */

import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from './support/temporary.ts'

const example = fileURLToPath(new URL('../examples/markdown-to-jsonl.js', import.meta.url))

/** By file: its text, and the title that its record is to have. */
const files: Record<string, [string, string]> = {
  'plain.md': ['Words before.\n\n## Second level ##\n\n# First', 'Second level'],
  'windows.md': ['# Line ends of Windows\r\n\r\ntext\r\n', 'Line ends of Windows'],
  'none.md': ['No heading here: #1 and #tag\n#tag\n####### seven\n', 'none'],
  'mark.md': ['\ufeff# Behind a mark\n', 'Behind a mark'],
  'fence.md': ['```sh\n# install it\nnpm ci\n```\n\n# Real title\n', 'Real title'],
  'tilde.md': ['~~~\n# code\n```\n# more code\n~~~\n# Real title\n', 'Real title'],
  'longer-fence.md': ['````md\n```sh\n# code\n```\n# code\n````\n# Real title\n', 'Real title'],
  'fence-in-fence.md': ['```\n# code\n```sh\n# code\n```\n# Real title\n', 'Real title'],
  'indented-fence.md': ['- a list\n\n  ```sh\n  # code\n  ```\n\n# Real title\n', 'Real title'],
  'open-fence.md': ['```sh\n# never closed\n', 'open-fence'],
  'inline.md': ['```code``` in a line\n\n# Real title\n\n```sh\n# code\n```\n', 'Real title'],
  'comment.md': ['<!--\n# Copyright\n-->\n# Real title\n', 'Real title'],
  'matter.md': ["---\n# a comment\ntitle: 'Its own title'\ntags: [a]\n---\n# Heading\n", 'Its own title'],
  'matter-windows.md': ['\ufeff---\r\ntitle: Its own title\r\n---\r\n# Heading\r\n', 'Its own title'],
  'matter-without.md': ['---\n# a comment\ntags: [a]\n---\n# Heading\n', 'Heading'],
  'matter-blank.md': ['---\ntitle: ""\n---\n# Heading\n', 'Heading'],
  'matter-empty.md': ['---\n---\n# Heading\n\n---\n\n# Later\n', 'Heading'],
}

describe('a folder of Markdown', () => {
  it('becomes records whose titles are those of the documents, not of their code', () => {
    const folder = temporaryFolder()
    mkdirSync(join(folder, 'docs', 'node_modules'), { recursive: true })
    for (const [name, [text]] of Object.entries(files)) writeFileSync(join(folder, 'docs', name), text)
    writeFileSync(join(folder, 'docs/node_modules/other.md'), '# Of another package')
    const lines = execFileSync(process.execPath, [example, folder], { encoding: 'utf8' }).trim().split('\n')
    const records = lines.map((line) => JSON.parse(line) as { path: string; title: string; body: string })
    expect(Object.fromEntries(records.map(({ path, title }) => [path, title]))).toEqual(
      Object.fromEntries(Object.entries(files).map(([name, [, title]]) => [`docs/${name}`, title])),
    )
    expect(records.find(({ path }) => path === 'docs/mark.md')?.body).toBe('# Behind a mark\n')
  })
})
