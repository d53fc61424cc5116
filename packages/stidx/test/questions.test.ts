/** Questions as people ask them: what matches nothing in quotes or after a colon counts as its words. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import { judge, loadCranfield } from '../bench/judge.ts'
import { buildIndex } from '../src/build.ts'
import { openIndex } from '../src/index-file.ts'
import { buildFrom } from './support/index.ts'
import { asQuestions } from './support/questions.ts'
import { temporaryFolder } from './support/temporary.ts'

const notes = [
  { id: 'deploy', title: 'Blue green deployment', slug: 'blue-green', body: 'Switch it.', status: 'active' },
  {
    id: 'whale',
    title: 'Whale watching',
    body: 'A green sea and a boat.',
    status: 'archived',
    tags: ['sea'],
  },
  { id: 'boat', title: 'A boat', body: 'Whale bones in a green boat.', status: 'active', tags: ['sea'] },
  { id: 'local', title: 'Find files', slug: 'local-search', body: 'Nothing else.' },
  { id: 'about', title: 'Local search local search', body: 'local search '.repeat(9) },
]

const open = () => buildFrom(notes).open()
const find = (query: string, options = {}) => {
  const index = open()
  const { results, relaxed, total } = index.search(query, options)
  index.close()
  return { ids: results.map(({ id }) => id), relaxed, total }
}

describe('a question', () => {
  it('finds by its words what it quotes and no record holds, and says so', () => {
    expect(find('"deployment green"')).toEqual({ ids: ['deploy', 'boat', 'whale'], relaxed: true, total: 3 })
    expect(find('"whale xyzzy" green')).toEqual(expect.objectContaining({ relaxed: true, total: 3 }))
    expect(find('What is "the blue deploymnet" (e.g. "a b c")?').ids[0]).toBe('deploy')
  })

  it('keeps to a phrase that a record holds, also next to one that none does', () => {
    expect(find('"green boat" deployment')).toEqual({ ids: ['boat'], relaxed: undefined, total: 1 })
    expect(find('"green boat" "boat green" deployment')).toEqual({ ids: ['boat'], relaxed: true, total: 1 })
    // Each is somewhere, but not both in one record: the first one counts.
    expect(find('"green boat" "blue green"')).toEqual({ ids: ['boat'], relaxed: true, total: 1 })
    expect(find('"green boat" status:archived').ids).toEqual(['whale'])
  })

  it('takes a value that no record has for words, and keeps filters that exclude each other', () => {
    expect(find('status:whale')).toEqual({ ids: ['whale', 'boat'], relaxed: true, total: 2 })
    expect(find('title:bones')).toEqual({ ids: ['boat'], relaxed: true, total: 1 })
    expect(find('status:active? boat')).toMatchObject({ ids: ['boat', 'whale'], relaxed: true })
    expect(find('status:active boat')).toEqual({ ids: ['boat'], relaxed: undefined, total: 1 })
    expect(find('status:archived title:green whale')).toEqual({ ids: [], relaxed: undefined, total: 0 })
  })

  it('never gives up a filter of the options', () => {
    expect(find('whale', { status: 'none' })).toEqual({ ids: [], relaxed: undefined, total: 0 })
    expect(find('"boat bones" whale', { status: 'none' })).toMatchObject({ ids: [], total: 0 })
    expect(find('"boat bones"', { status: 'archived' })).toEqual({ ids: ['whale'], relaxed: true, total: 1 })
  })

  it('of the words of a slug comes to that very record first', () => {
    for (const query of ['local-search', 'local search', 'Local  Search']) {
      expect(find(query).ids[0]).toBe('local')
    }
    expect(find('search local').ids[0]).toBe('about')
  })

  it('of any punctuation finds something where its words do', () => {
    const index = open()
    const sign = fc.constantFrom(
      ...'" : ( ) [ ] { } , . ; ? ! * - / \' ` “ ” \n e.g. i.e. Examples:'.split(' '),
      ' ',
    )
    const name = fc.constantFrom('', 'title:', 'path:', 'body:', 'slug:', 'tag:', 'id:', 'status:', 'x:')
    const word = fc.constantFrom('whale', 'green', 'boat', 'deployment', 'xyzzy')
    const piece = fc.tuple(sign, name, sign, word, sign).map((parts) => parts.join(''))
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 8 }), (pieces) => {
        // Two fields that no record has together are two filters: that nothing is found is right then.
        fc.pre(pieces.filter((text) => /(title|path|body|slug|tag|id|status):/.test(text)).length < 2)
        const question = `${pieces.join(' ')} whale`
        expect([question, index.search(question).total > 0]).toEqual([question, true])
      }),
      { numRuns: propertyRuns(500) },
    )
    index.close()
  })

  it('with quotes, colons and brackets is answered nearly as well as its plain words', () => {
    const { documents, queries } = loadCranfield()
    const folder = temporaryFolder()
    const [input, output] = [join(folder, 'records.jsonl'), join(folder, 'index.stidx')]
    const records = documents.map((document, i) => ({ ...document, status: i % 2 ? 'active' : 'done' }))
    writeFileSync(input, records.map((record) => `${JSON.stringify(record)}\n`).join(''))
    buildIndex({ input, output })
    const index = openIndex(output)
    const ask = (query: string) => index.search(query, { limit: 100 }).results.map(({ id }) => id)
    const questions = asQuestions(queries, 3)
    const [plain, found] = [queries, questions].map((asked) => asked.map(({ text }) => ask(text))) as [
      string[][],
      string[][],
    ]
    index.close()
    expect(questions.filter((_, i) => found[i]!.length === 0)).toEqual([])
    const overlaps = found.map((ids, i) => {
      const best = plain[i]!.slice(0, 10)
      return best.filter((id) => ids.slice(0, 10).includes(id)).length / best.length
    })
    expect(overlaps.reduce((sum, share) => sum + share, 0) / overlaps.length).toBeGreaterThan(0.85)
    const ndcgOf = (lists: string[][]) => judge(queries, (_text, i) => lists[i]!).ndcg10
    expect(ndcgOf(found)).toBeGreaterThan(0.97 * ndcgOf(plain))
  })
})
