/** The built-in embedder that knows meaning: its bytes, whom it finds, and what it leaves to the words. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import { readMeaning } from '#engines/embedder/meaning.ts'
import { createWordPieces } from '#engines/embedder/word-pieces.ts'
import { cosine } from '../../../contract/embedder.contract.ts'

interface Text {
  text: string
}

const { docs, queries } = JSON.parse(
  readFileSync(new URL('../../../../bench/data/paraphrases.json', import.meta.url), 'utf8'),
) as { docs: (Text & { id: string })[]; queries: (Text & { rel: Record<string, number> })[] }

const meaning = openLocalEmbedder()
const lexical = openLocalEmbedder('lexical')
const textsOf = (all: Text[]) => all.map(({ text }) => text)

test('the bytes are those of every machine, by the prototype of the table', async () => {
  const vectors = await meaning.embed([...textsOf(docs), ...textsOf(queries)])
  const digest = createHash('sha256')
  for (const vector of vectors)
    digest.update(Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength))
  expect(digest.digest('hex')).toBe('fd1781ebd2de901892708261d2b4c8a0ead641457ea8fefaee009aef0230e175')
})

test('each of twenty questions finds the note that says the same in other words among the first ten', async () => {
  const found = await ranks(meaning)
  expect(found.filter((rank) => rank < 10)).toHaveLength(20)
  expect(found.filter((rank) => rank === 0).length).toBeGreaterThanOrEqual(17)
  expect((await ranks(lexical)).filter((rank) => rank < 10).length).toBeLessThan(15)
})

test('paraphrases score about .35, and notes about other matters .04', async () => {
  const [notes, asked] = [await meaning.embed(textsOf(docs)), await meaning.embed(textsOf(queries))]
  const same: number[] = []
  const others: number[] = []
  for (const [n, question] of asked.entries()) {
    for (const [m, note] of notes.entries()) {
      const isRight = docs[m]!.id in queries[n]!.rel
      ;(isRight ? same : others).push(cosine(question, note))
    }
  }
  same.sort((a, b) => a - b)
  expect(same[10]).toBeCloseTo(0.35, 1)
  expect(same[0]).toBeGreaterThan(0.09)
  expect(others.reduce((sum, score) => sum + score, 0) / others.length).toBeCloseTo(0.04, 1)
})

test.each(['أين توجد المنارة؟', '灯塔修好了吗', 'Где маяк?', '12 345', '🙂', '', '   ', '!?'])(
  'a text without Latin letters, %j, has its lexical vector',
  async (text) => expect(await meaning.embed([text])).toEqual(await lexical.embed([text])),
)

test('a text of two scripts has its meaning by the share of its Latin letters', async () => {
  const [mixed, latin] = await meaning.embed(['the lighthouse маяк маяк маяк', 'the lighthouse'])
  const [words] = await lexical.embed(['the lighthouse маяк маяк маяк'])
  expect(mixed).not.toEqual(words)
  expect(cosine(mixed!, words!)).toBeGreaterThan(cosine(mixed!, latin!))
})

test('new questions find old vectors by their words', async () => {
  const [old, other] = await lexical.embed(['the lighthouse is repaired', 'bread with walnuts'])
  const [asked] = await meaning.embed(['is the lighthouse repaired'])
  expect(cosine(asked!, old!)).toBeGreaterThan(cosine(asked!, other!) + 0.1)
})

test('a damaged table is refused by name', () => {
  expect(() => readMeaning(Buffer.from('FSEM0001'), 'f'.repeat(64))).toThrow(
    expect.objectContaining({ code: 'invalid_configuration' }),
  )
})

test('words become their longest known pieces, signs stand alone, and unknown parts make a word unknown', () => {
  const pieces = ['light', '##house', '##s', 'the', '!', '灯', 'cafe', '##x']
  const split = createWordPieces(pieces)
  expect(split('The LIGHTHOUSES!')).toEqual([3, 0, 1, 2, 4])
  expect(split('Café\u0000 灯灯')).toEqual([6, 5, 5])
  expect(split('lightyear house')).toEqual([])
  expect(split(`the ${'x'.repeat(101)}`)).toEqual([3])
})

test('long texts are embedded elsewhere, with the same bytes, while others get their answers', async () => {
  const embedder = openLocalEmbedder()
  onTestFinished(() => embedder.close())
  const long = Array.from({ length: 60 }, (_, n) => `The lighthouse ${n} is repaired. `.repeat(500))
  const order: string[] = []
  const all = embedder.embed(long).then((vectors) => {
    order.push('long')
    return vectors
  })
  const first = embedder.embed(['x'.repeat(20_000)]).then(() => order.push('one'))
  await embedder.embed(['short']).then(() => order.push('short'))
  await first
  const vectors = await all
  expect(order).toEqual(['short', 'one', 'long'])
  expect(vectors).toHaveLength(60)
  expect([vectors[7]]).toEqual(
    await embedder.embed([long[7]!.slice(0, 9_000), long[7]!]).then(([, same]) => [same]),
  )
})

test('more waiting texts than fit are refused, and a closed one starts again', async () => {
  const embedder = openLocalEmbedder('lexical')
  onTestFinished(() => embedder.close())
  const mega = 'word '.repeat(4_000_000)
  const first = embedder.embed([mega])
  await expect(embedder.embed([mega])).rejects.toMatchObject({ code: 'overloaded', retryAfter: 1 })
  await embedder.close()
  await expect(first).rejects.toMatchObject({ code: 'embedder_unavailable' })
  expect(await embedder.embed(['word '.repeat(3_000)])).toHaveLength(1)
})

async function ranks(embedder: typeof meaning): Promise<number[]> {
  const [notes, asked] = [await embedder.embed(textsOf(docs)), await embedder.embed(textsOf(queries))]
  return asked.map((question, n) => {
    const scored = notes.map((note, m) => ({ id: docs[m]!.id, score: cosine(question, note) }))
    scored.sort((a, b) => b.score - a.score)
    return scored.findIndex(({ id }) => id in queries[n]!.rel)
  })
}
