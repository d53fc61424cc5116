/** The contract's harness for Qdrant: collections of their own for every test, removed afterwards. */

import { randomBytes } from 'node:crypto'
import { QdrantClient } from '@qdrant/js-client-rest'
import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import { openQdrantVectors } from '#engines/vectors/qdrant.ts'
import type { VectorsHarness } from '#test/contract/vectors-harness.ts'

export function qdrantVectorsHarness(url: string): VectorsHarness {
  const dimension = 64
  return {
    dimension,
    async place() {
      const prefix = `t${randomBytes(6).toString('hex')}`
      const collections = [`${prefix}_first`, `${prefix}_second`] as const
      onTestFinished(() => removeCollections(url, prefix))
      const log = pino({ level: 'silent' })
      return { collections, open: () => openQdrantVectors({ url, collections, dimension, log }) }
    },
  }
}

async function removeCollections(url: string, prefix: string): Promise<void> {
  const client = new QdrantClient({ url, checkCompatibility: false })
  const { collections } = await client.getCollections()
  for (const { name } of collections) if (name.startsWith(prefix)) await client.deleteCollection(name)
}
