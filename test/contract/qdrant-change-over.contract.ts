/** Collections of a former release, on the stand-in and on a real Qdrant: they get the form of new ones while they serve. */

import { QdrantClient } from '@qdrant/js-client-rest'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { qdrantVectorsHarness } from '#test/support/qdrant-vectors.ts'
import { clusteredVectors, nextPosition, vectorOf } from '#test/support/vectors.ts'

export function describeQdrantChangeOver(name: string, url: string): void {
  describe(`changing over: ${name}`, () => {
    test('vectors and words go to disk, copies into memory, and searches answer the same meanwhile', async () => {
      const { dimension, place } = qdrantVectorsHarness(url)
      const { collections, fillAsFormerly, open } = await place()
      const vectors = clusteredVectors({ count: 400, dimension, seed: 21 })
      await fillAsFormerly(
        vectors.map((vector, n) => ({ id: `p${n}`, vector, payload: { even: n % 2 === 0 } })),
      )
      // Two processes do it at the same time.
      const stores = await Promise.all([open(), open()])
      onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))))
      const found = async (n: number) => {
        const filter = { must: [{ key: 'even', match: { value: n % 2 === 0 } }] }
        const { hits } = await stores[n % 2]!.search(collections[0], {
          vector: vectors[n]!,
          limit: 3,
          filter,
        })
        return hits.map(({ id, score }) => [id, Math.round(score * 1e5)])
      }
      const before = await Promise.all([0, 1, 2, 3].map(found))
      const client = new QdrantClient({ url, checkCompatibility: false })
      // The words lie on disk in both, and vectors with copies in memory in the first.
      for (const [collection, marks] of [
        [collections[0], 3],
        [collections[1], 1],
      ] as const) {
        await eventually('it has the new form', async () => {
          expect(await Promise.all([0, 1, 2, 3].map(found))).toEqual(before)
          const { config, payload_schema, status } = await client.getCollection(`${collection}__g1`)
          const form = JSON.stringify([
            config.params.vectors,
            config.quantization_config,
            payload_schema.tokens,
          ])
          return status === 'green' && form.match(/"on_disk":true|"always_ram":true/g)?.length === marks
        })
      }
      expect(before.map(([first]) => first)).toEqual([0, 1, 2, 3].map((n) => [`p${n}`, 1e5]))
    })

    test('points may expire at once, and an index of their expiry is made; those of before stay', async () => {
      const { dimension, place } = qdrantVectorsHarness(url)
      const { collections, fillAsFormerly, open } = await place()
      const [name] = collections
      const vector = vectorOf(dimension, 1)
      await fillAsFormerly(['old', 'a'].map((id) => ({ id, vector, payload: {} })))
      const store = await open()
      onTestFinished(() => store.close())
      const position = nextPosition()
      await store.apply(name, [
        { kind: 'upsert', id: 'a', position, vector, payload: {}, expiresAt: Date.now() },
      ])
      const read = async () => [
        (await store.search(name, { vector, limit: 5 })).hits.map(({ id }) => id),
        (await store.scroll(name, { limit: 5 })).points.map(({ id }) => id),
        (await store.expired(name, 5)).map(({ id }) => id),
      ]
      const client = new QdrantClient({ url, checkCompatibility: false })
      await eventually('the index is made', async () => {
        expect(await read()).toEqual([['old'], ['old'], ['a']])
        const { payload_schema, status } = await client.getCollection(`${name}__g1`)
        return status === 'green' && payload_schema.expiresAt?.data_type === 'integer'
      })
      await store.forgetDeletions(0)
      expect(await read()).toEqual([['old'], ['old'], ['a']])
    })
  })
}
