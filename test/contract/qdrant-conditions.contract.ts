/**
 * Behaviour of Qdrant that the driver relies on for conditional writes. It runs on the stand-in and on a real Qdrant,
 * so that the two do not differ.
 */

import { randomBytes } from 'node:crypto'
import { QdrantClient } from '@qdrant/js-client-rest'
import { describe, expect, onTestFinished, test } from 'vitest'

type Fields = Record<string, unknown>

const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
const point = (n: number, payload: Fields) => ({ id: uuid(n), vector: [1, n], payload })
const below = (key: string, lt: number) => ({ key, range: { lt } })

export function describeQdrantConditions(name: string, url: string): void {
  /** A collection of the test's own with points numbered from 0, and what their payloads are now. */
  async function collectionOf(...payloads: Fields[]) {
    const client = new QdrantClient({ url, checkCompatibility: false })
    const collection = `t${randomBytes(6).toString('hex')}`
    await client.createCollection(collection, { vectors: { size: 2, distance: 'Cosine' } })
    onTestFinished(async () => void (await client.deleteCollection(collection)))
    await client.upsert(collection, { wait: true, points: payloads.map((payload, n) => point(n, payload)) })
    const held = async () => {
      const { points } = await client.scroll(collection, { limit: 100, with_payload: ['v', 'at', 'epoch'] })
      return Object.fromEntries(points.map(({ id, payload }) => [Number(String(id).slice(-12)), payload]))
    }
    return { client, collection, held }
  }

  describe(`conditional writes: ${name}`, () => {
    test('an upsert replaces points that match, leaves the others, and inserts absent ones', async () => {
      const { client, collection, held } = await collectionOf({ at: 1, v: 'a' }, { at: 5, v: 'b' })
      const points = [0, 1, 2].map((n) => point(n, { at: 9 }))
      await client.upsert(collection, { wait: true, points, update_filter: { must: [below('at', 5)] } })
      expect(await held()).toEqual({ 0: { at: 9 }, 1: { at: 5, v: 'b' }, 2: { at: 9 } })
    })

    test('a field that is missing is empty, and neither below a number nor equal to it', async () => {
      const { client, collection, held } = await collectionOf({ v: 'a' }, { v: 'b' }, { v: 'c' })
      const upsert = (n: number, condition: object) =>
        client.upsert(collection, {
          wait: true,
          points: [point(n, { at: 1 })],
          update_filter: { should: [condition] },
        })
      await upsert(0, below('at', 100))
      await upsert(1, { key: 'at', match: { value: 0 } })
      await upsert(2, { is_empty: { key: 'at' } })
      expect(await held()).toEqual({ 0: { v: 'a' }, 1: { v: 'b' }, 2: { at: 1 } })
    })

    test('one of several conditions is enough; one may combine several', async () => {
      const stored = [
        { epoch: 1, at: 9 },
        { epoch: 2, at: 3 },
        { epoch: 2, at: 4 },
        { epoch: 3, at: 1 },
      ]
      const { client, collection, held } = await collectionOf(...stored)
      const both = { must: [{ key: 'epoch', match: { value: 2 } }, below('at', 4)] }
      await client.upsert(collection, {
        wait: true,
        points: stored.map((_, n) => point(n, { v: 'new' })),
        update_filter: { should: [below('epoch', 2), both] },
      })
      expect(await held()).toEqual({ 0: { v: 'new' }, 1: { v: 'new' }, 2: stored[2], 3: stored[3] })
    })

    test('each point of an upsert may have a condition of its own', async () => {
      const stored = [{ at: 1 }, { at: 2 }, { at: 30 }, { v: 'a' }]
      const { client, collection, held } = await collectionOf(...stored)
      const own = [2, 2, 31, 5, 7].map((at, n) => ({ must: [{ has_id: [uuid(n)] }, below('at', at)] }))
      const empty = { is_empty: { key: 'at' } }
      await client.upsert(collection, {
        wait: true,
        points: own.map((_, n) => point(n, { v: 'new' })),
        update_filter: { should: [empty, { must: [{ should: own }] }] },
      })
      const replaced = { v: 'new' }
      expect(await held()).toEqual({ 0: replaced, 1: { at: 2 }, 2: replaced, 3: replaced, 4: replaced })
    })

    test('a delete by filter takes what matches alone', async () => {
      const { client, collection, held } = await collectionOf({ at: 1 }, { at: 2 }, { at: 3 }, { v: 'a' })
      await client.delete(collection, { wait: true, filter: { must: [{ key: 'at', range: { lte: 2 } }] } })
      expect(await held()).toEqual({ 2: { at: 3 }, 3: { v: 'a' } })
    })
  })
}
