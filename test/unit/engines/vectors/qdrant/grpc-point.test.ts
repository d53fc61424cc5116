/** Points as bytes, read by the messages of Qdrant's own client. */

import { fromBinary } from '@bufbuild/protobuf'
import { PointsUpdateOperation_PointStructListSchema, type Value } from '@qdrant/js-client-grpc'
import { expect, test } from 'vitest'
import { encodePoint } from '#engines/vectors/qdrant/grpc-point.ts'
import type { QdrantPoint } from '#engines/vectors/qdrant/writer.ts'
import { randomVector } from '#test/support/vectors.ts'

/** As JSON has it; numbers that are integers to Qdrant become bigint. */
function plain({ kind }: Value): unknown {
  if (kind.case === 'listValue') return kind.value.values.map(plain)
  if (kind.case === 'structValue') return membersOf(kind.value.fields)
  return kind.value
}

function membersOf(fields: Record<string, Value>) {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, plain(value)]))
}

function decoded(points: QdrantPoint[]) {
  const fields = points.map((point) => encodePoint(point).data)
  // Tag 1, length-delimited, before each.
  const bytes = Buffer.concat(fields.flatMap((data) => [Uint8Array.of(0x0a), data]))
  return fromBinary(PointsUpdateOperation_PointStructListSchema, bytes).points.map((point) => {
    expect(point.$unknown).toBeUndefined()
    const vectors = point.vectors!.vectorsOptions
    const vector = vectors.case === 'vector' ? vectors.value.vector : undefined
    return {
      id: point.id!.pointIdOptions.value,
      payload: membersOf(point.payload),
      vector: vector?.case === 'dense' ? Float32Array.from(vector.value.data) : undefined,
    }
  })
}

test('ids, payloads and vectors read back, however long; each integer of a JSON reader is one', () => {
  const values = {
    k: { a: ['x'.repeat(200), '', 'é😀\u0000'], __proto_: [] },
    numbers: { n: [0, -0, 1, -1, 0.5, -0.1, 2 ** 53 + 2, -(2 ** 63), 2 ** 62, 2 ** 63, 1e300, 5e-324] },
    times: {},
    texts: { t: ' words of it ' },
  }
  const payload = {
    id: 'p/1',
    epoch: 3,
    offset: 2 ** 40,
    payload: '{"a":1}',
    tokens: ['t'],
    values,
    shape: 1,
  }
  const vector = randomVector(1_536, 5)
  const points: QdrantPoint[] = [
    { id: '00000000-0000-4000-8000-000000000001', payload, vector },
    // A part of a longer buffer.
    {
      id: '00000000-0000-4000-8000-000000000002',
      payload: { id: '', epoch: 0, offset: 0, deletedAt: 1 },
      vector: vector.subarray(3, 7),
    },
  ]
  const numbers = [
    0n,
    0n,
    1n,
    -1n,
    0.5,
    -0.1,
    2n ** 53n + 2n,
    -(2n ** 63n),
    2n ** 62n,
    2 ** 63,
    1e300,
    5e-324,
  ]
  expect(decoded(points)).toEqual([
    {
      ...points[0],
      payload: {
        ...{ ...payload, epoch: 3n, offset: 2n ** 40n, shape: 1n },
        values: { ...values, numbers: { n: numbers } },
      },
    },
    { ...points[1], payload: { id: '', epoch: 0n, offset: 0n, deletedAt: 1n } },
  ])
})
