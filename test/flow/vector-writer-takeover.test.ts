/** A vector-writer whose write comes late, after another one took its partition over with batches cut differently. */

import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import type { VectorStore } from '#engines/vectors/port.ts'
import type { IndexWriter } from '#services/vectors/write/generation-writer.ts'
import { createHandler, joinApplies } from '#services/vectors/write/handler.ts'
import { theFourAlone } from '../support/collections.ts'
import { eventually } from '../support/eventually.ts'
import { openIndexLog } from '../support/index-writer.ts'
import { nothingBased } from '../support/nothing-based.ts'
import { temporaryFolder } from '../support/temporary.ts'

const writing = (apply: VectorStore['apply']): IndexWriter['openGeneration'] => {
  return ({ generation, epoch, calls, stuck }) => ({
    handle: createHandler({
      applyPoints: joinApplies(apply, generation),
      epoch,
      calls,
      stuck,
      collections: theFourAlone,
      based: nothingBased,
    }),
  })
}

/** Payloads of what the index holds. */
async function held(vectors: VectorStore): Promise<Record<string, unknown>> {
  const { points } = await vectors.scroll('posts', { limit: 100, withPayload: true })
  return Object.fromEntries(points.map(({ id, payload }) => [id, payload]))
}

test('the index holds exactly the last values', async () => {
  const log = pino({ level: 'silent' })
  const vectors = await openEmbeddedVectors({
    directory: temporaryFolder(),
    collections: ['posts'],
    dimension: 1_536,
    log,
  })
  onTestFinished(() => vectors.close())
  const index = await openIndexLog()
  const late = Promise.withResolvers<void>()
  let paused = false
  let arrived: Promise<void> | undefined
  const first = await index.startWriter({
    callTimeoutMs: 60_000,
    openGeneration: writing(async (collection, operations, { generation = 1 } = {}) => {
      const pauses = operations.some((one) => one.kind === 'upsert' && one.payload.v === 1)
      if (!pauses) return vectors.apply(collection, operations, { generation })
      // It is paused with its request not yet sent; nothing that ends its call reaches it.
      paused = true
      await late.promise
      arrived = vectors.apply(collection, operations, { generation })
      return arrived
    }),
  })
  await first.gain([0])
  await index.put(['a', 'b', 'c', 'd'].map((id) => ({ id, payload: { v: 0 } })))
  await eventually('the first values are there', async () => Object.keys(await held(vectors)).length === 4)
  await index.put([
    { id: 'a', payload: { v: 1 } },
    { id: 'b', payload: null },
    { id: 'c', payload: { v: 1 } },
    { id: 'new', payload: { v: 1 } },
  ])
  await eventually('the first writer is paused', () => paused)

  first.lose([0])
  const second = await index.startWriter({ batchRecordsMax: 3, openGeneration: writing(vectors.apply) })
  await second.gain([0])
  await index.put([
    { id: 'a', payload: { v: 2 } },
    { id: 'b', payload: { v: 2 } },
    { id: 'c', payload: null },
  ])
  const expected = { a: { v: 2 }, b: { v: 2 }, d: { v: 0 }, new: { v: 1 } }
  await eventually(
    'the second has applied everything',
    async () =>
      (await held(vectors)).a !== undefined &&
      JSON.stringify(await held(vectors)) === JSON.stringify(expected),
  )
  late.resolve()
  await eventually('the late write arrives', () => arrived !== undefined)
  await arrived
  expect(await held(vectors)).toEqual(expected)
})
