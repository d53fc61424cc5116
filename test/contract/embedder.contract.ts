/** Promises of every embedder. */

import { describe, expect, onTestFinished, test } from 'vitest'
import type { Embedder } from '#engines/embedder/port.ts'

export interface EmbedderHarness {
  open(): Promise<Embedder>
}

export const lengthOf = (vector: Float32Array): number => Math.sqrt(cosine(vector, vector))
export const cosine = (a: Float32Array, b: Float32Array): number =>
  a.reduce((sum, component, n) => sum + component * b[n]!, 0)

export function describeEmbedder(driver: string, harness: EmbedderHarness): void {
  describe(`embedder: ${driver}`, () => {
    async function embed(texts: string[]): Promise<Float32Array[]> {
      const embedder = await harness.open()
      onTestFinished(() => embedder.close())
      return embedder.embed(texts)
    }

    test('one unit vector of 1536 components for each text, in order', async () => {
      const texts = ['one', 'two', 'three', 'one']
      const vectors = await embed(texts)
      expect(vectors).toHaveLength(4)
      for (const vector of vectors) {
        expect(vector).toBeInstanceOf(Float32Array)
        expect(vector).toHaveLength(1536)
        expect(lengthOf(vector)).toBeCloseTo(1, 5)
      }
      expect(vectors[0]).toEqual(vectors[3])
      expect(vectors[0]).not.toEqual(vectors[1])
    })

    test('a text without any word gives a unit vector, never a zero one', async () => {
      for (const vector of await embed(['', ' ', '\n\t', '!?…', '🙂']))
        expect(lengthOf(vector)).toBeCloseTo(1, 5)
    })

    test('hundreds of texts come back in their order', async () => {
      const texts = Array.from({ length: 300 }, (_, n) => `text number ${n}`)
      const [all, [last]] = [await embed(texts), await embed([texts.at(-1)!])]
      expect(all).toHaveLength(300)
      expect(all.at(-1)).toEqual(last)
    })

    test('a ping passes', async () => {
      const embedder = await harness.open()
      onTestFinished(() => embedder.close())
      await embedder.ping(5_000)
    })

    test('no texts, no vectors', async () => {
      expect(await embed([])).toEqual([])
    })

    test('it names its model, and close may be called twice', async () => {
      const embedder = await harness.open()
      expect(embedder.model.length).toBeGreaterThan(0)
      await embedder.close()
      await embedder.close()
    })
  })
}
