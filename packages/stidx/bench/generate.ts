/**
 * Makes as many records as a bench wants out of the sentences of real ones, by a seeded generator, and queries for
 * them.
 */

import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Corpus, CorpusRecord } from './debian.ts'

/** Numbers from 0 to 1, the same for every seed on every machine (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const batchRecords = 2_000

/** Writes `count` records as JSON lines: the real ones first, then made ones. */
export function writeRecords(file: string, corpus: Corpus, count: number): void {
  const descriptor = openSync(file, 'w')
  const random = seeded(count)
  const real = corpus.records
  const sentences = real.map((record) => record.body.split(/(?<=[.:!?])\s+/))
  for (let from = 0; from < count; from += batchRecords) {
    let lines = ''
    for (let i = from; i < Math.min(count, from + batchRecords); i++) {
      lines += `${JSON.stringify(real[i] ?? madeRecord(i, real, sentences, random))}\n`
    }
    writeSync(descriptor, lines)
  }
  closeSync(descriptor)
}

/** The beginning of one title and the end of another, the sentences of both in turns. */
function madeRecord(
  number: number,
  real: CorpusRecord[],
  sentences: string[][],
  random: () => number,
): CorpusRecord {
  const first = Math.floor(random() * real.length)
  const second = Math.floor(random() * real.length)
  const halves = [real[first]!, real[second]!].map((record) => record.title.split(' '))
  const title = [
    ...halves[0]!.slice(0, Math.ceil(halves[0]!.length / 2)),
    ...halves[1]!.slice(Math.floor(halves[1]!.length / 2)),
  ]
  const body = [
    ...sentences[first]!.filter(() => random() < 0.5),
    ...sentences[second]!.filter(() => random() < 0.5),
  ]
  const slug = `${real[first]!.slug}-${real[second]!.slug}-${number}`
  return {
    ...real[first]!,
    id: `STIDX001-made-${number}`,
    title: title.join(' '),
    slug,
    path: `${real[second]!.collection}/${slug}.md`,
    body: body.join(' '),
  }
}

/** `count` queries of one to seven words that are in one record each, as they come there or picked from it. */
export function makeQueries(corpus: Corpus, count: number, seed: number): string[] {
  const random = seeded(seed)
  const queries: string[] = []
  while (queries.length < count) {
    const record = corpus.records[Math.floor(random() * corpus.records.length)]!
    const words = wordsOf(`${record.title} ${record.body}`)
    const length = 1 + (queries.length % 7)
    if (words.length < length) continue
    const start = Math.floor(random() * (words.length - length + 1))
    const inARow = random() < 0.5
    const picked = inARow
      ? words.slice(start, start + length)
      : Array.from({ length }, () => words[Math.floor(random() * words.length)]!)
    queries.push(picked.join(' '))
  }
  return queries
}

/** The commonest phrases of the texts: as many words next to each other as each of these lengths says. */
export function commonestPhrases(corpus: Corpus, lengths: readonly number[]): string[] {
  const texts = corpus.records.slice(0, commonestRecords).map(({ body }) => wordsOf(body))
  return lengths.map((length) => {
    const counts = new Map<string, number>()
    for (const words of texts) {
      for (let end = length; end <= words.length; end++) {
        const phrase = words.slice(end - length, end).join(' ')
        counts.set(phrase, (counts.get(phrase) ?? 0) + 1)
      }
    }
    return [...counts].sort(([, a], [, b]) => b - a)[0]![0]
  })
}

const commonestRecords = 10_000

/** Two typos a query: letters of long words swapped, left out or doubled, so that no record has the words. */
export function makeTypos(corpus: Corpus, count: number, seed: number): string[] {
  const random = seeded(seed)
  const known = new Set<string>()
  for (const { title, body } of corpus.records)
    for (const word of wordsOf(`${title} ${body}`)) known.add(word)
  const long = [...known].filter((word) => /^[a-z]{7,12}$/.test(word))
  const typo = (): string => {
    const word = long[Math.floor(random() * long.length)]!
    const at = 2 + Math.floor(random() * (word.length - 4))
    const kinds = [
      word.slice(0, at) + word[at + 1] + word[at] + word.slice(at + 2),
      word.slice(0, at) + word.slice(at + 1),
      word.slice(0, at) + word[at] + word.slice(at),
    ]
    const made = kinds[Math.floor(random() * kinds.length)]!
    return known.has(made) ? typo() : made
  }
  return Array.from({ length: count }, () => `${typo()} ${typo()}`)
}

export interface KnownItem {
  query: string
  id: string
}

/** Queries of people who look for one package: its name, words of its title, or both with a word of its description. */
export function makeKnownItems(corpus: Corpus, count: number, seed: number): KnownItem[] {
  const random = seeded(seed)
  const items: KnownItem[] = []
  const pick = (words: string[], most: number) => words.filter(() => random() < 0.7).slice(0, most)
  while (items.length < count) {
    const record = corpus.records[Math.floor(random() * corpus.records.length)]!
    const title = wordsOf(record.title)
    const body = wordsOf(record.body).filter((word) => word.length > 4)
    const kinds = [wordsOf(record.slug), pick(title, 4), [...pick(title, 3), ...pick(body, 2)]]
    const words = kinds[items.length % kinds.length]!
    if (words.length > 0) items.push({ query: words.join(' '), id: record.id })
  }
  return items
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[a-z0-9]{2,}/g) ?? []
}

/** Where there are no Debian lists: the Cranfield abstracts that lie in test/data. */
export function loadAbstracts(): Corpus {
  const file = fileURLToPath(new URL('../test/cranfield/docs.jsonl', import.meta.url))
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  const records = lines.map((line): CorpusRecord => {
    const { id, title, body } = JSON.parse(line) as { id: string; title: string; body: string }
    const rest = {
      collection: 'cranfield',
      status: 'active',
      tags: [],
      updated_at: '2020-01-01T00:00:00.000Z',
    }
    return { id, title, slug: id, path: `cranfield/${id}.md`, body, ...rest }
  })
  return { records, source: `NO DEBIAN PACKAGE LISTS HERE: ${records.length} Cranfield abstracts instead` }
}
