/** The lexical embedder beyond the contract: the same bytes everywhere, and which texts are near. */

import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import { cosine, lengthOf } from '../../../contract/embedder.contract.ts'
import { propertyRuns } from '../../../support/property-runs.ts'

const { embed } = openLocalEmbedder('lexical')

test('the bytes are the same on every machine', async () => {
  const [vector] = await embed(['The quick brown fox, déjà vu, Größe ２３ 東京 and 🙂 again and again.'])
  const digest = createHash('sha256').update(Buffer.from(vector!.buffer)).digest('hex')
  expect(digest).toBe('46dd79dc6308bbd6347480ee8940e6e8cb30d007a128cf52f19c44b3513b8bcc')
})

test('a text finds what shares its words before what shares nothing', async () => {
  const [query, near, nearer, far] = await embed([
    'how to configure kafka brokers',
    'Kafka: broker configuration',
    'Configure the Kafka brokers like this',
    'banana bread with walnuts',
  ])
  expect(cosine(query!, nearer!)).toBeGreaterThan(cosine(query!, near!))
  expect(cosine(query!, near!)).toBeGreaterThan(cosine(query!, far!) + 0.2)
})

test('case, width and spacing make no difference; the order of words makes a small one', async () => {
  const [a, b, c] = await embed(['Hello  WORLD', 'ｈｅｌｌｏ world', 'world hello'])
  expect(a).toEqual(b)
  expect(cosine(a!, c!)).toBeGreaterThan(0.5)
  expect(cosine(a!, c!)).toBeLessThan(0.99)
})

test('a word that is repeated a hundred times does not drown the others', async () => {
  const [text, once, shouted] = await embed(['alpha beta', 'alpha', `${'alpha '.repeat(100)} beta`])
  expect(cosine(text!, shouted!)).toBeGreaterThan(0.3)
  expect(cosine(text!, once!)).toBeGreaterThan(0.3)
})

test('any text gives a finite unit vector', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 300 }), async (text) => {
      const [vector] = await embed([text])
      expect(lengthOf(vector!)).toBeCloseTo(1, 5)
    }),
    { numRuns: propertyRuns(300) },
  )
})

test('a text of a megabyte is embedded, and other work gets its turn between texts', async () => {
  let turns = 0
  const timer = setInterval(() => turns++, 0)
  await embed(Array.from({ length: 20 }, (_, n) => `word${n} `.repeat(10_000)))
  clearInterval(timer)
  expect(turns).toBeGreaterThan(3)
})
