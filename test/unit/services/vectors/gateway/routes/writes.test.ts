/** Checked points become messages, and their vectors do not wait for the garbage collector. */

import { expect, test } from 'vitest'
import { vectorDimension } from '#engines/vectors/collections.ts'
import type { OutgoingMessage, Publisher } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { publishPoints } from '#services/vectors/gateway/routes/writes.ts'

const collection = { name: 'posts', stored: 'posts', making: null }

const headers = { operation: 'op' }

function parsed(count: number) {
  const vectors = new Float32Array(count * vectorDimension)
  for (let n = 0; n < count; n++) vectors[n * vectorDimension] = n
  const ids = Array.from({ length: count }, (_, n) => `p${n}`)
  return {
    collection: 'posts',
    ids,
    payloads: ids.map(() => '{}'),
    vectors: vectors.buffer,
    texts: new Map(),
    expiries: new Map(),
  }
}

test('every point is published with its vector, whose memory is given back when the log has them', async () => {
  const seen: number[] = []
  const publish = async (_: unknown, messages: OutgoingMessage<unknown, VectorUpsert>[]) => {
    for (const { value } of messages) seen.push(value!.vector.readFloatLE(0))
    return messages.map((_, n) => ({ partition: 0, offset: n }))
  }
  const points = parsed(250)
  const publisher = { publish: publish as Publisher['publish'] }
  const records = { ...points, collection, headers, embedder: 'e' }
  expect(await publishPoints(publisher, records, points)).toHaveLength(250)
  expect(seen).toEqual(Array.from({ length: 250 }, (_, n) => n))
  expect(points.vectors.byteLength).toBe(0)
})

test('while some may still be encoded, as after a fault, the vectors stay', async () => {
  const publish = async () => {
    throw new Error('away')
  }
  const points = parsed(2)
  const publisher = { publish: publish as Publisher['publish'] }
  const records = { ...points, collection, headers, embedder: 'e' }
  await expect(publishPoints(publisher, records, points)).rejects.toThrow('away')
  expect(points.vectors.byteLength).toBe(2 * vectorDimension * 4)
})
