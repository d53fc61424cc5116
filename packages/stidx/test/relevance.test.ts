/** Relevance is a promise: judged queries over the Cranfield abstracts, and names before texts. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { buildFts5, openFts5 } from '../bench/fts5.ts'
import { openOurs } from '../bench/in-process.ts'
import { cranfieldDocumentsFile, judge, loadCranfield } from '../bench/judge.ts'
import { buildIndex } from '../src/build.ts'
import { openIndex } from '../src/index-file.ts'
import { temporaryFolder } from './support/temporary.ts'

function search(records: object[], query: string): string[] {
  const folder = temporaryFolder()
  const input = join(folder, 'records.jsonl')
  const output = join(folder, 'index.stidx')
  writeFileSync(input, records.map((record) => `${JSON.stringify(record)}\n`).join(''))
  buildIndex({ input, output })
  const index = openIndex(output)
  try {
    return index.search(query).results.map(({ id }) => id)
  } finally {
    index.close()
  }
}

/** A second's work; the limit is for machines that are busy with other things. */
const timeout = 180_000

describe('relevance', { timeout }, () => {
  it('keeps nDCG@10, MRR@10 and recall@100 on Cranfield, with the one setting there is', () => {
    const output = join(temporaryFolder(), 'cranfield.stidx')
    buildIndex({ input: cranfieldDocumentsFile, output })
    const index = openIndex(output)
    const judgement = judge(loadCranfield().queries, (query) =>
      index.search(query, { limit: 100 }).results.map(({ id }) => id),
    )
    index.close()
    expect(judgement.ndcg10).toBeGreaterThanOrEqual(0.398)
    expect(judgement.mrr10).toBeGreaterThanOrEqual(0.54)
    expect(judgement.recall100).toBeGreaterThanOrEqual(0.75)
  })

  it('is no worse than FTS5 where half of the records have no body', () => {
    const { documents, queries } = loadCranfield()
    const folder = temporaryFolder()
    const [input, output, table] = ['in.jsonl', 'index.stidx', 'fts5.db'].map((name) =>
      join(folder, name),
    ) as [string, string, string]
    const sums = { ours: 0, fts5: 0 }
    for (const without of [0, 1]) {
      const half = documents.map((document, i) =>
        i % 2 === without ? { ...document, body: undefined } : document,
      )
      writeFileSync(input, half.map((record) => `${JSON.stringify(record)}\n`).join(''))
      buildIndex({ input, output })
      buildFts5(input, table)
      const peers = { ours: openOurs(output), fts5: openFts5(table) }
      for (const name of ['ours', 'fts5'] as const) {
        sums[name] += judge(queries, (query) => peers[name].search(query, 10)).ndcg10
        peers[name].close()
      }
    }
    expect(sums.ours / sums.fts5).toBeGreaterThanOrEqual(1)
  })

  it('puts the record of that very title, slug or id first, however often others have the words', () => {
    const body = 'harbour lights harbour lights harbour lights '.repeat(20)
    const others = [1, 2, 3].map((n) => ({
      id: `other-${n}`,
      title: `Harbour lights ${n}: harbour lights`,
      body,
    }))
    expect(search([...others, { id: 'it', title: 'Harbour Lights' }], 'harbour lights')[0]).toBe('it')
    expect(search([...others, { id: 'it', slug: 'harbour-lights' }], 'harbour-lights')[0]).toBe('it')
    expect(search([...others, { id: 'harbour-lights', body: 'x' }], 'harbour-lights')[0]).toBe(
      'harbour-lights',
    )
  })

  it('finds words in any of their forms, and names as they are written before related words', () => {
    const records = [
      { id: 'run', body: 'He runs along the harbour' },
      { id: 'none', body: 'Nothing of that kind' },
    ]
    expect(search(records, 'running')).toEqual(['run'])
    const slugs = ['generate', 'generator', 'general'].map((slug) => ({
      id: slug,
      slug: `the-${slug}-page`,
      title: slug,
    }))
    expect(search(slugs, 'generator')[0]).toBe('generator')
  })

  it('finds Arabic, Chinese, Thai and accented words', () => {
    const records = [
      { id: 'ar', title: 'المَدْرَسَةُ الكبيرة' },
      { id: 'zh', title: '東京都の天気' },
      { id: 'th', title: 'ภาษาไทย' },
      { id: 'pl', title: 'Łódź' },
    ]
    expect(search(records, 'مدرسه')).toEqual(['ar'])
    expect(search(records, '京都')).toEqual(['zh'])
    expect(search(records, '気')).toEqual(['zh'])
    expect(search(records, 'ไทย')).toEqual(['th'])
    expect(search(records, 'lodz')).toEqual(['pl'])
  })
})
