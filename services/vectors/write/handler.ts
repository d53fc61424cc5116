/** Applies a batch of one partition to the vector engine, with one call for each collection. */

import { isCollection, vectorDimension } from '#engines/vectors/collections.ts'
import type { Payload, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { type BatchOutcome, done, park } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consume/consumer.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parsePointKey } from '#topics/catalog.ts'
import { type EngineCalls, joinCalls, outcomeOfFault, type Pending } from './engine-calls.ts'
import { type StuckRecords, skippedReason } from './stuck.ts'

/** Rejects at once when the signal aborts; `alone`: the call is not joined with those of others. */
type ApplyPoints = (
  collection: string,
  operations: PointOperation[],
  options: { signal: AbortSignal; alone?: boolean },
) => Promise<void>

/** Writes of several partitions into one collection share a call; one that takes long holds no other up. */
export function joinApplies(apply: VectorStore['apply'], generation: number, tracing?: Tracing): ApplyPoints {
  const join = joinCalls<{ collection: string; operations: PointOperation[] }>({
    operationsMax: 2_000,
    gatherMsMax: 50,
    givenUp: 'vector_engine_unavailable',
    tracing,
    call: (writes, signal) =>
      apply(
        writes[0]!.collection,
        writes.flatMap(({ operations }) => operations),
        { generation, signal },
      ),
  })
  return (collection, operations, options) =>
    join({ collection, operations }, { ...options, group: collection })
}

export interface HandlerParts {
  applyPoints: ApplyPoints
  /** Epoch of the topic that the messages are read from. */
  epoch: number
  calls: EngineCalls
  stuck: Pick<StuckRecords, 'isSkipped'>
}

type Context = Pick<CallContext, 'signal' | 'partition'>

export function createHandler(parts: HandlerParts) {
  return async function writeVectors(
    messages: Message<VectorUpsert>[],
    context: Context,
  ): Promise<BatchOutcome[]> {
    const outcomes = new Array<BatchOutcome>(messages.length).fill(done)
    const groups = new Map<string, Pending<PointOperation>[]>()
    messages.forEach((message, index) => {
      const { key, partition, offset } = message
      const skipped = parts.stuck.isSkipped(partition, offset)
      const parsed = skipped ? { fault: skippedReason } : parseOperation(message, parts.epoch)
      if ('fault' in parsed) {
        outcomes[index] = park(parsed.fault)
        return
      }
      const group = groups.get(parsed.collection) ?? []
      groups.set(parsed.collection, group)
      group.push({ index, offset, key, operation: parsed.operation })
    })
    await Promise.all(
      [...groups].map(([collection, group]) => writeCollection(parts, collection, group, context, outcomes)),
    )
    return outcomes
  }
}

/**
 * Writes the last operation of each point. Where the engine refuses them, halving the batch lets the operation before
 * the refused one count, as it would have without batches.
 */
async function writeCollection(
  { applyPoints, calls }: HandlerParts,
  collection: string,
  group: Pending<PointOperation>[],
  context: Context,
  outcomes: BatchOutcome[],
): Promise<void> {
  const last = [...new Map(group.map((one) => [one.operation.id, one])).values()]
  const { written, fault } = await calls.write(last, context, (some, alone) => {
    const operations = some.map(({ operation }) => operation)
    return applyPoints(collection, operations, { signal: context.signal, alone })
  })
  if (written === last.length) return
  const outcome = outcomeOfFault('vectors', fault)
  const left = new Set(last.slice(written).map(({ operation }) => operation.id))
  for (const { index, operation } of group) if (left.has(operation.id)) outcomes[index] = outcome
}

/** Header of the number that all records of one request share; failure rows are kept under it. */
export const operationHeader = 'operation'

const vectorBytes = vectorDimension * Float32Array.BYTES_PER_ELEMENT

export type Parsed = { collection: string; operation: PointOperation } | { fault: string }

/** `epoch` is that of the topic the message was read from. */
export function parseOperation(message: Message<VectorUpsert>, epoch: number): Parsed {
  const key = parsePointKey(message.key)
  if (!key || key.id === '') return { fault: 'the key names no collection and point' }
  const { collection, id } = key
  if (!isCollection(collection)) return { fault: `there is no collection named ${collection.slice(0, 100)}` }
  const position = { epoch, offset: message.offset }
  if (message.value === null) return { collection, operation: { kind: 'delete', id, position } }
  const payload = parsePayload(message.value.payload)
  if (!payload) return { fault: 'the payload is not a JSON object' }
  const bytes = message.value.vector
  if (bytes.length !== vectorBytes) {
    return { fault: `the vector has ${bytes.length} bytes instead of ${vectorBytes}` }
  }
  return { collection, operation: { kind: 'upsert', id, position, vector: floatsOf(bytes), payload } }
}

/** A view where that is possible: a Float32Array begins at a multiple of four, a Buffer anywhere. */
function floatsOf(bytes: Buffer): Float32Array {
  const size = Float32Array.BYTES_PER_ELEMENT
  const { buffer, byteOffset } = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)
  return new Float32Array(buffer, byteOffset, bytes.length / size)
}

function parsePayload(text: string): Payload | null {
  try {
    const payload = JSON.parse(text) as unknown
    const isObject = payload !== null && typeof payload === 'object' && !Array.isArray(payload)
    return isObject ? (payload as Payload) : null
  } catch {
    return null
  }
}
