/** The vector engine's contract on the Qdrant driver, each request checked against Qdrant's own description. */

import { afterAll, afterEach, expect } from 'vitest'
import { openFakeQdrant } from '#test/support/qdrant-fake.ts'
import { qdrantVectorsHarness } from '#test/support/qdrant-vectors.ts'
import { describeQdrantChangeOver } from './qdrant-change-over.contract.ts'
import { describeQdrantConditions } from './qdrant-conditions.contract.ts'
import { describeVectors } from './vectors.contract.ts'

const fake = await openFakeQdrant()
afterEach(() => expect(fake.faults.splice(0)).toEqual([]))
afterAll(() => fake.close())
describeQdrantConditions('stand-in', fake.url)
describeQdrantChangeOver('stand-in', fake.url)
describeVectors('qdrant, as described', qdrantVectorsHarness(fake.url))
