/**
 * The vector engine's contract on a real Qdrant, with all points written over gRPC. The server is its own: promoting a
 * generation moves all collections of a server, those of other suites too.
 */

import { afterAll, test } from 'vitest'
import { qdrantVectorsHarness } from '#test/support/qdrant-vectors.ts'
import { openOwnQdrant } from '../support/distributed-qdrant.ts'
import { describeVectors } from './vectors.contract.ts'

const server = await openOwnQdrant()
afterAll(() => server?.kill9())
if (server) describeVectors('qdrant over gRPC', qdrantVectorsHarness(server.url, server.grpcUrl))
else test.skip('no qdrant executable on the PATH', () => {})
