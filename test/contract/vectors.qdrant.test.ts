/** The vector engine's contract, run on a real Qdrant. */

import { test } from 'vitest'
import { qdrantVectorsHarness } from '#test/support/qdrant-vectors.ts'
import { qdrantUrl } from '#test/support/servers.ts'
import { describeQdrantChangeOver } from './qdrant-change-over.contract.ts'
import { describeQdrantConditions } from './qdrant-conditions.contract.ts'
import { describeVectors } from './vectors.contract.ts'

const url = await qdrantUrl()
if (url) {
  describeQdrantConditions('Qdrant', url)
  describeQdrantChangeOver('Qdrant', url)
  describeVectors('qdrant', qdrantVectorsHarness(url))
} else test.skip('no Qdrant: set QDRANT_URL, or put a qdrant executable on the PATH', () => {})
