/** The scale of an embedder: measured once, waited for by nobody. */

import { expect, test } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import type { Embedder } from '#engines/embedder/port.ts'
import { weakBelowOf } from '#lib/weak-below.ts'
import { eventually } from '../../support/eventually.ts'

function counted(embed: Embedder['embed']) {
  let calls = 0
  const embedder: Embedder = {
    ...openLocalEmbedder(),
    embed(texts) {
      calls += 1
      return embed(texts)
    },
  }
  return { embedder, calls: () => calls }
}

async function cosineOf(embedder: Embedder, a: string, b: string): Promise<number> {
  const [one, other] = await embedder.embed([a, b])
  return one!.reduce((sum, component, n) => sum + component * other![n]!, 0)
}

test('with the built-in embedder a note answers its question, and a question of nothing is weak', async () => {
  const { embedder, calls } = counted(openLocalEmbedder().embed)
  expect(weakBelowOf(embedder)).toBeUndefined()
  await eventually('it is measured', () => weakBelowOf(embedder) !== undefined)
  expect(calls()).toBe(1)
  const weakBelow = weakBelowOf(embedder)!
  const note = 'The lighthouse is repaired\nIts lamp burns again since Monday.'
  expect(await cosineOf(embedder, 'Is the lighthouse repaired?', note)).toBeGreaterThan(weakBelow)
  expect(await cosineOf(embedder, 'zebra quantum', note)).toBeLessThan(weakBelow)
  expect(await cosineOf(embedder, 'How do I bake bread?', note)).toBeLessThan(weakBelow)
})

test('it moves with the scores of the embedder', async () => {
  const lift = Math.SQRT1_2
  const { embedder } = counted(async (texts) => {
    const vectors = await openLocalEmbedder().embed(texts)
    // Half of each vector is the same for all: scores s become (1 + s) / 2.
    return vectors.map((vector) => Float32Array.from([lift, ...vector.map((each) => each * lift)]))
  })
  const plain = openLocalEmbedder()
  const both = () => [weakBelowOf(plain), weakBelowOf(embedder)]
  await eventually('both are measured', () => both().every((each) => each !== undefined))
  const [low, high] = both()
  expect(high!).toBeCloseTo((1 + low!) / 2, 2)
})

test('an embedder that fails is not asked again at once', async () => {
  const { embedder, calls } = counted(() => Promise.reject(new Error('away')))
  for (let n = 0; n < 3; n++) {
    expect(weakBelowOf(embedder)).toBeUndefined()
    await Promise.resolve()
  }
  expect(calls()).toBe(1)
})
