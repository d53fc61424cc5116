/** The index on disk: how large it is, and that one of an earlier version goes on. */

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import * as zvec from '@zvec/zvec'
import { describe, expect, test } from 'vitest'
import { createZvecIndex, openZvecIndex, type ZvecIndex } from '#engines/vectors/embedded/neighbour-index.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import { clusteredVectors } from '#test/support/vectors.ts'

const dimension = 1536
const vectors = clusteredVectors({ count: 2_000, dimension, seed: 3 })
const entries = vectors.map((vector, n) => ({ n, vector, tokens: [] }))

function nearest(index: ZvecIndex, n: number): number[] {
  return index.search({ vector: vectors[n]!, limit: 1, tokens: { all: [], none: [] }, matching: () => [] })
}

describe('the index of zvec', () => {
  test('its graph takes less of the disk than the vectors that it was given', async () => {
    const path = join(temporaryFolder(), 'index')
    const index = createZvecIndex(zvec, path, dimension)
    index.upsert(entries)
    await index.optimize()
    expect(nearest(index, 77)).toEqual([77])
    index.close()
    const files = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.includes('v.index'),
    )
    const bytes = files.reduce((sum, file) => sum + statSync(join(path, file)).size, 0)
    expect(bytes).toBeLessThan(entries.length * dimension * Float32Array.BYTES_PER_ELEMENT)
  })

  test('one of float32, as an earlier version made it, takes further points and finds all', () => {
    const path = join(temporaryFolder(), 'index')
    const earlier = new zvec.ZVecCollectionSchema({
      name: 'points',
      vectors: [
        {
          name: 'v',
          dataType: zvec.ZVecDataType.VECTOR_FP32,
          dimension,
          indexParams: { indexType: zvec.ZVecIndexType.HNSW, metricType: zvec.ZVecMetricType.COSINE },
        },
      ],
      fields: [
        {
          name: 'kv',
          dataType: zvec.ZVecDataType.ARRAY_STRING,
          indexParams: { indexType: zvec.ZVecIndexType.INVERT },
        },
      ],
    })
    zvec.ZVecCreateAndOpen(path, earlier).closeSync()
    const index = openZvecIndex(zvec, path)
    index.upsert(entries.slice(0, 50))
    expect(nearest(index, 17)).toEqual([17])
    index.close()
  })
})
