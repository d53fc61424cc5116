/** A reader in another language, written after the page of the format alone, finds in an index what ours finds. */

import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { analyzer } from '../src/analysis/analyzer.ts'
import { buildIndex } from '../src/build.ts'
import { openIndex } from '../src/index-file.ts'
import { temporaryFolder } from './support/temporary.ts'

const reader = fileURLToPath(new URL('./support/stidx_reader.py', import.meta.url))
const hasPython = spawnSync('python3', ['--version']).status === 0
if (!hasPython) console.error('NO python3 HERE: the second reader of STIDX001 is not compared')

interface Answers {
  records: Record<string, unknown>[]
  get: (Record<string, unknown> | null)[]
  search: [number, [string, number][]][]
  values: string[][]
  lexicon: number[]
}

function ask(file: string, questions: object): Answers {
  const asked = spawnSync('python3', [reader, file], {
    input: JSON.stringify(questions),
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  })
  expect(asked.stderr).toBe('')
  return JSON.parse(asked.stdout) as Answers
}

/** The abstracts, with what they lack: other scripts, values, times, a record of nothing. */
function writeRecords(file: string): Record<string, unknown>[] {
  const lines = readFileSync(new URL('./cranfield/docs.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n')
  const records = lines.map((line, n) => ({
    ...(JSON.parse(line) as Record<string, unknown>),
    slug: `abstracts-${n}`,
    status: n % 3 === 0 ? 'active' : 'done',
    tags: [`n${n % 7}`, 'all'],
    updated_at: new Date(Date.UTC(2020, 0, 1 + (n % 90))).toISOString(),
  }))
  const all = [...records, { id: 'ünï', title: 'Łódź 東京', body: 'العربية', n: 1.5 }, { id: 'bare' }]
  writeFileSync(file, all.map((record) => `${JSON.stringify(record)}\n`).join(''))
  return all
}

/** Two seconds' work; the limit is for machines that are busy with other things. */
const timeout = 180_000

describe.skipIf(!hasPython)('a second reader of STIDX001, in Python', { timeout }, () => {
  it('reads the same records, terms, values, words and scores from the page of the format alone', () => {
    expect(readFileSync(reader, 'utf8').trimEnd().split('\n').length).toBeLessThanOrEqual(100)
    const folder = temporaryFolder()
    const [input, file] = [join(folder, 'records.jsonl'), join(folder, 'index.stidx')]
    const written = writeRecords(input)
    // It knows nothing of lists of beginnings, and reads a file with them all the same.
    buildIndex({ input, output: file, broadFrom: 1000 })
    const index = openIndex(file)
    const queries = [
      'boundary layer',
      'the flow of gases',
      'viscosity',
      'łódź',
      'hypersonic nozzles',
      'abstracts',
    ]
    const ids = ['cran-17', 'ünï', 'bare', 'nobody']
    const answers = ask(file, {
      get: ids,
      search: queries.map((query) =>
        query.split(' ').flatMap((word) => {
          const [term] = analyzer.termsOf(analyzer.fold(word))
          const rest = analyzer.termsOf(analyzer.fold(word)).slice(1)
          return [term!, ...rest].map(({ term, percent }) => [term, percent])
        }),
      ),
      values: [
        ['status', 'active'],
        ['tags', 'n3'],
        ['status', 'unheard'],
      ],
      lexicon: ['viscosity', 'unheardof'],
    })
    const byId = (records: Record<string, unknown>[]) => new Map(records.map((record) => [record.id, record]))
    expect(byId(answers.records)).toEqual(byId(written))
    expect(answers.get).toEqual(ids.map((id) => index.get(id)))
    for (const [i, query] of queries.entries()) {
      const { total, results } = index.search(query)
      expect([query, answers.search[i]]).toEqual([
        query,
        [total, results.map(({ id, score }) => [id, score])],
      ])
    }
    const active = written.filter(({ status }) => status === 'active').map(({ id }) => id)
    expect(answers.values[0]!.sort()).toEqual(active.sort())
    expect(answers.values.slice(1).map((found) => found.length)).toEqual([200, 0])
    expect(answers.lexicon[0]).toBeGreaterThan(0)
    expect(answers.lexicon[1]).toBe(0)
    index.close()
  })
})
