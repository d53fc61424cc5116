/** Phrases in few but long records: the text read and analysed for them is bounded, whatever the records hold. */

import { writeFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import { analyzer } from '../src/analysis/analyzer.ts'
import { crc32 } from '../src/checksum.ts'
import { openIndex } from '../src/index-file.ts'
import { type Built, buildFrom, sampleRecords } from './support/index.ts'
import { holds, placesOf } from './support/places.ts'

/** Opens it with an analyser that counts the characters of the texts that it is given. */
function openCounting({ file }: Built) {
  const read = { characters: 0 }
  const counting: typeof analyzer = {
    ...analyzer,
    analyzeField(text, field, emit) {
      read.characters += text.length
      analyzer.analyzeField(text, field, emit)
    },
    termsOfWord(word) {
      read.characters += word.length
      return analyzer.termsOfWord(word)
    },
  }
  const index = openIndex(file, counting)
  /** The ids that are found, in order, and how many characters were analysed for that. */
  const find = (query: string, options = {}) => {
    read.characters = 0
    const { results, relaxed } = index.search(query, { limit: 1000, ...options })
    const ids = relaxed ? [] : results.map(({ id }) => id).sort()
    return { ids, analysed: read.characters }
  }
  return { find, close: index.close }
}

const filler = (words: number, of: number) =>
  Array.from({ length: words }, (_, n) => `log${((n * 37) % of).toString(36)}`).join(' ')

/** Ten logs of some 60 KB: together more than is read for a phrase. */
const logs = Array.from({ length: 10 }, (_, n) => ({
  id: `log-${n}`,
  body: `${filler(6_000, 500)} ${n < 8 ? 'needle here' : 'here needle'} ${filler(4_000, 700)}`,
  status: n % 2 ? 'odd' : 'even',
}))
const notes = [
  { id: 'note', title: 'A needle here and a thimble', body: 'short', status: 'odd' },
  { id: 'thimble', title: 'A thimble, needle and all', status: 'even' },
]
const needles = ['log-0', 'log-1', 'log-2', 'log-3', 'log-4', 'log-5', 'log-6', 'log-7', 'note']

describe('a phrase in few but long records', () => {
  it('is found without a text of theirs being analysed', () => {
    const { find, close } = openCounting(buildFrom([...logs, ...notes]))
    const { ids, analysed } = find('"needle here"')
    expect(ids).toEqual(needles)
    // The query, and no record.
    expect(analysed).toBeLessThan(100)
    expect(find('"needle here"', { status: 'odd' })).toMatchObject({
      ids: ['log-1', 'log-3', 'log-5', 'log-7', 'note'],
    })
    expect(find('"needle here" status:even').ids).toEqual(['log-0', 'log-2', 'log-4', 'log-6'])
    expect(find('"log1 log12"').analysed).toBeLessThan(100)
    close()
  })

  it('with a word of short records has only these read', () => {
    const { find, close } = openCounting(buildFrom([...logs, ...notes]))
    const { ids, analysed } = find('"thimble needle"')
    expect(ids).toEqual(['thimble'])
    expect(analysed).toBeLessThan(300)
    close()
  })

  it('is the same file from many runs, and says that readers must know of it', () => {
    const whole = buildFrom([...logs, ...notes]).bytes()
    expect(
      buildFrom([...logs, ...notes], { listBytesHeldMax: 2_000 })
        .bytes()
        .equals(whole),
    ).toBe(true)
    expect(whole.readUInt32LE(12)).toBe(3)
    expect(buildFrom(notes).bytes().readUInt32LE(12)).toBe(1)
  })

  it('is found in exactly the records that hold it, whichever of its words have positions', () => {
    const words = 'the of deploy runs whale green camelCaseName café 東京 node_modules lighthouse'.split(' ')
    const records: Record<string, unknown>[] = sampleRecords(60, 36).map((record) => ({
      ...record,
      body: `${String(record.body)} ${filler(1_000, 900)} ${String(record.body)}`,
    }))
    const built = buildFrom(records)
    const placed = openCounting(built)
    const bare = openCounting(withoutPositions(built))
    const held = new Map(records.map((record) => [String(record.id), placesOf(record)]))
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...words), { minLength: 2, maxLength: 3 }), (phrase) => {
        const text = `"${phrase.join(' ')}"`
        const terms = emittedBy(phrase.join(' '))
        const expected = [...held].filter(([, fields]) => holds(fields, terms))
        const ids = expected.map(([id]) => id).sort()
        const found = placed.find(text)
        expect([text, found.ids]).toEqual([text, ids])
        expect(found.analysed).toBeLessThan(300_000)
        expect([text, bare.find(text).ids]).toEqual([text, ids])
      }),
      { numRuns: propertyRuns(30) },
    )
    placed.close()
    bare.close()
  }, 60_000)
})

describe('a phrase in short records', () => {
  it('has only the texts read that pass the filters', () => {
    const short = Array.from({ length: 20 }, (_, n) => ({
      id: `n-${n}`,
      body: `a needle here ${filler(200, 90)}`,
      status: n === 7 ? 'open' : 'done',
    }))
    const { find, close } = openCounting(buildFrom(short))
    const all = find('"needle here"')
    const one = find('"needle here" status:open')
    expect([all.ids.length, one.ids]).toEqual([20, ['n-7']])
    expect(one.analysed).toBeLessThan(all.analysed / 10)
    expect(find('"needle here"', { status: 'open' }).analysed).toBeLessThan(all.analysed / 10)
    close()
  })
})

/** The same index under a header that says that there are no positions. */
function withoutPositions(built: Built): Built {
  const bytes = built.bytes()
  bytes.writeUInt32LE(bytes.readUInt32LE(16) & ~1, 16)
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 508)), 508)
  const file = `${built.file}-bare`
  writeFileSync(file, bytes)
  return { ...built, file }
}

/** The base terms of a text, in order. */
function emittedBy(text: string): string[] {
  const terms: string[] = []
  analyzer.analyzeField(text, 'body', (term, position) => {
    terms[position] ??= term
  })
  return terms
}
