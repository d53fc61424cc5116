/** The contract's harness for Qdrant: collections of their own for every test, removed afterwards. */

import { randomBytes } from 'node:crypto'
import { QdrantClient } from '@qdrant/js-client-rest'
import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import { payloadTokens } from '#engines/vectors/filter.ts'
import type { Point } from '#engines/vectors/port.ts'
import { createPointIds } from '#engines/vectors/qdrant/writer.ts'
import { openQdrantVectors } from '#engines/vectors/qdrant.ts'
import type { VectorsHarness } from '#test/contract/vectors-harness.ts'

/** With `grpcUrl` all points are written over gRPC. */
export function qdrantVectorsHarness(url: string, grpcUrl?: string): VectorsHarness {
  const dimension = 64
  return {
    dimension,
    async place() {
      const prefix = `t${randomBytes(6).toString('hex')}`
      const collections = [`${prefix}_first`, `${prefix}_second`] as const
      onTestFinished(() => removeCollections(url, prefix))
      const log = pino({ level: 'silent' })
      const grpc = grpcUrl === undefined ? {} : { grpcUrl, grpcPointsMin: 1 }
      return {
        collections,
        open: () =>
          openQdrantVectors({ url, ...grpc, collections, copied: [collections[0]], dimension, log }),
        fillAsFormerly: (points) => fillAsFormerly(url, collections, dimension, points),
        indexSmall: () => indexSmall(url, `${collections[0]}__g1`),
      }
    },
  }
}

/** Qdrant makes a graph and copies from 10 MB of vectors on. */
async function indexSmall(url: string, collection: string): Promise<void> {
  const client = new QdrantClient({ url, checkCompatibility: false })
  await client.updateCollection(collection, { optimizers_config: { indexing_threshold: 100 } })
}

/** Collections and points as they were before points had positions. */
async function fillAsFormerly(
  url: string,
  collections: readonly string[],
  dimension: number,
  points: Point[],
): Promise<void> {
  const client = new QdrantClient({ url, checkCompatibility: false })
  for (const name of collections) {
    const collection = `${name}__g1`
    await client.createCollection(collection, { vectors: { size: dimension, distance: 'Cosine' } })
    await client.createPayloadIndex(collection, { field_name: 'tokens', field_schema: 'keyword', wait: true })
    await client.updateCollectionAliases({
      actions: [{ create_alias: { alias_name: name, collection_name: collection } }],
    })
  }
  const pointId = createPointIds(collections[0]!)
  await client.upsert(collections[0]!, {
    wait: true,
    points: points.map(({ id, vector, payload }) => ({
      id: pointId(id),
      vector: Array.from(vector),
      payload: { id, payload: JSON.stringify(payload), tokens: payloadTokens(payload) },
    })),
  })
}

async function removeCollections(url: string, prefix: string): Promise<void> {
  const client = new QdrantClient({ url, checkCompatibility: false })
  const { collections } = await client.getCollections()
  for (const { name } of collections) if (name.startsWith(prefix)) await client.deleteCollection(name)
}
