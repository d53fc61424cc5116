/** The corpus of the tour: sections of the docs, under ids that stay, and questions that find the page that answers them. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import { readCorpus, sectionsOf } from '../../../../cli/commands/tour-documents.ts'
import { questions } from '../../../../cli/commands/tour-parts.ts'
import { projectFolder } from '../../../support/pages.ts'

const words = 'Words that are long enough to be worth a search, and then some more of them, to be safe.'

test('a page is cut at its headings, but not at those in its code', () => {
  const page = [
    `# The \`flotilla\` command\n\n${words}`,
    `## A [link](x.md), *and* more\n${words}\n\`\`\`sh\n# no heading\n\`\`\``,
    `## Twice ##\n${words}`,
    `### Twice\n${words}`,
    '## Short\nToo little.',
    `#### Deeper\n${words}`,
  ].join('\n')
  const sections = sectionsOf('docs/command-line.md', page)
  expect(sections.map(({ id, title }) => [id, title])).toEqual([
    ['docs/command-line#the-flotilla-command', 'The flotilla command'],
    ['docs/command-line#a-link-and-more', 'The flotilla command: A link, and more'],
    ['docs/command-line#twice', 'The flotilla command: Twice'],
    ['docs/command-line#twice-1', 'The flotilla command: Twice'],
    ['docs/command-line#short', 'The flotilla command: Short'],
  ])
  expect(sections[1]!.text).toBe(`${words}\n\`\`\`sh\n# no heading\n\`\`\``)
  expect(sections[1]!.path).toBe('docs/command-line.md#a-link-and-more')
  expect(sections[4]!.text).toContain('#### Deeper')
})

test('line breaks of other systems and long texts are taken', () => {
  const [only] = sectionsOf('README.md', `# A\r\n\r\n${'word '.repeat(2_000)}\r\n`)
  expect(only).toMatchObject({ id: 'docs/readme#a', title: 'A' })
  expect(only!.text.length).toBe(4_000)
})

test('every section of the docs has an id of its own, and a page that is there', () => {
  const documents = readCorpus()
  expect(documents.length).toBeGreaterThan(200)
  expect(new Set(documents.map(({ id }) => id)).size).toBe(documents.length)
  for (const { path } of documents) expect(existsSync(join(projectFolder, path.split('#')[0]!))).toBe(true)
})

test('with the built-in embedder the first hit of each question is on the page that answers it', async () => {
  const documents = readCorpus()
  const embedder = openLocalEmbedder()
  const vectors = await embedder.embed(documents.map(({ title, text }) => `${title}\n\n${text}`))
  for (const { query, page } of questions) {
    const [asked] = await embedder.embed([query])
    const scores = vectors.map((vector) => vector.reduce((sum, value, n) => sum + value * asked![n]!, 0))
    const first = documents[scores.indexOf(Math.max(...scores))]!
    expect(`${query} ${first.path.split('#')[0]}`).toBe(`${query} ${page}`)
  }
})
