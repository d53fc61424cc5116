/** Publishes checked points and deletions as records of vectors.commands. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { vectorDimension } from '#engines/vectors/collections.ts'
import { deadlines } from '#lib/deadlines.ts'
import { detach } from '#lib/giving-way.ts'
import {
  headerNames,
  type OutgoingMessage,
  type Position,
  type Publisher,
} from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { operationHeader } from '../write/failures.ts'
import type { ParsedUpsert } from './points.ts'

const timeoutMs = deadlines.request.pointsMs
/** Records that are encoded before other requests get a turn. */
const sliceMax = 100
const vectorBytes = vectorDimension * Float32Array.BYTES_PER_ELEMENT

type PointMessage = OutgoingMessage<{ collection: string; id: string }, VectorUpsert>

interface PointHeaders {
  operation: string
  agentId: string
  /** Request id and traceparent. */
  request: Record<string, string>
}

export interface PointPublisher {
  /**
   * Resolves with the position of each point; the memory of the vectors is given back then. Throws AppError
   * `log_unavailable`: some may then be stored.
   */
  upsert(
    points: Pick<ParsedUpsert, 'collection' | 'ids' | 'payloads' | 'vectors'>,
    headers: PointHeaders,
  ): Promise<Position[]>
  delete(collection: string, ids: readonly string[], headers: PointHeaders): Promise<Position[]>
}

export function createPointPublisher(publisher: Pick<Publisher, 'publish'>): PointPublisher {
  /** In slices, so that a thousand points never delay a search; the log's queues join them again. */
  async function publish(count: number, messageAt: (n: number) => PointMessage): Promise<Position[]> {
    const slices: Promise<Position[]>[] = []
    for (let begin = 0; begin < count; begin += sliceMax) {
      if (begin > 0) await nextTurn()
      const length = Math.min(sliceMax, count - begin)
      const messages = Array.from({ length }, (_, n) => messageAt(begin + n))
      const slice = publisher.publish(vectorsCommands, messages, { timeoutMs })
      // Awaited below; a slice that fails before must not end the process.
      slice.catch(() => undefined)
      slices.push(slice)
    }
    return (await Promise.all(slices)).flat()
  }
  return {
    async upsert({ collection, ids, payloads, vectors }, operation) {
      const headers = headersOf(operation)
      const positions = await publish(ids.length, (n) => ({
        key: { collection, id: ids[n]! },
        value: { vector: Buffer.from(vectors, n * vectorBytes, vectorBytes), payload: payloads[n]! },
        headers,
      }))
      detach(new Uint8Array(vectors))
      return positions
    },
    delete(collection, ids, operation) {
      const headers = headersOf(operation)
      return publish(ids.length, (n) => ({ key: { collection, id: ids[n]! }, value: null, headers }))
    },
  }
}

function headersOf({ operation, agentId, request }: PointHeaders): Record<string, string> {
  return { ...request, [operationHeader]: operation, [headerNames.agent]: agentId }
}
