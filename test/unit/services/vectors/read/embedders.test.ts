/** Which points another embedder made, and what the platform says about them. */

import { expect, test } from 'vitest'
import type { Filter, VectorStore } from '#engines/vectors/port.ts'
import { embedderWarnings, findOtherEmbedders, warnOfOthers } from '#services/vectors/read/embedders.ts'

test('hits of another embedder are counted by it, with the command that helps', () => {
  const hits = [
    { id: 'a', embedder: 'old' },
    { id: 'b', embedder: 'new' },
    { id: 'c' },
    { id: 'note-7', embedder: 'old' },
    { id: 'audit-1', embedder: 'old' },
    { id: 'note-8', embedder: 'old' },
  ]
  expect(embedderWarnings('posts', hits.slice(0, 3), 'new')).toEqual([
    '1 of 3 hits has a vector of the embedder old, the question has one of new: its score says little. `flotilla rebuild embeddings` makes its vector again.',
  ])
  expect(
    embedderWarnings('fleet_notes', hits, 'new').map((one) => one.replace(/ ha(s|ve) .* little\./, '')),
  ).toEqual([
    '1 of 6 hits `flotilla rebuild embeddings` makes its vector again.',
    '2 of 6 hits, notes of the hub, `flotilla rebuild notes` makes their vectors again.',
    '1 of 6 hits, audit notes,',
  ])
  expect(embedderWarnings('posts', hits.slice(1, 3), 'new')).toEqual([])
})

test('stored points are counted by collection; notes of the hub by themselves, audit notes never', async () => {
  const asked: [string, Filter | undefined][] = []
  const vectors = {
    stats: async () => ['fleet_notes', 'tea~0a1b2c3d4e'].map((collection) => ({ collection })),
    async embedders(collection: string, filter?: Filter) {
      asked.push([collection, filter])
      if (collection !== 'fleet_notes') {
        return [
          { embedder: 'old', points: 1_204 },
          { embedder: 'new', points: 5 },
          { embedder: null, points: 9 },
        ]
      }
      return filter!.must!.length === 0 ? [{ embedder: null, points: 3 }] : [{ embedder: null, points: 1 }]
    },
  } as unknown as VectorStore
  expect(await findOtherEmbedders(vectors, 'new')).toEqual([
    {
      collection: 'fleet_notes',
      found:
        '1 note of the hub has a vector of an embedder that was not kept, not of new: searches by text find it less well',
      advice: '`flotilla rebuild notes` makes its vector again.',
    },
    {
      collection: 'tea',
      found:
        '1,204 points of tea have vectors of the embedder old, not of new: searches by text find them less well',
      advice: '`flotilla rebuild embeddings` makes their vectors again.',
    },
  ])
  const warned: object[] = []
  await warnOfOthers(vectors, 'new', { warn: (fields: object) => void warned.push(fields) } as never)
  expect(warned).toMatchObject([
    { found: expect.stringContaining('1 note of the hub') },
    { found: expect.stringContaining('1,204 points of tea') },
  ])
  const audit = { key: 'tags', match: { value: 'auth' } }
  for (const [collection, filter] of asked) {
    if (collection === 'fleet_notes') expect(filter!.must_not).toContainEqual(audit)
  }
})
