/** The vector engine's contract on a real Qdrant, with all points written over gRPC. */

import { test } from 'vitest'
import { qdrantVectorsHarness } from '#test/support/qdrant-vectors.ts'
import { qdrantGrpcUrl, qdrantUrl } from '#test/support/servers.ts'
import { describeVectors } from './vectors.contract.ts'

const [url, grpcUrl] = [await qdrantUrl(), await qdrantGrpcUrl()]
if (url && grpcUrl) describeVectors('qdrant over gRPC', qdrantVectorsHarness(url, grpcUrl))
else test.skip('no Qdrant with gRPC: set QDRANT_URL and QDRANT_GRPC_URL, or put qdrant on the PATH', () => {})
