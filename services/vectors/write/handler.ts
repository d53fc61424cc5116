/** Applies a batch of one partition to the vector engine, with one call for each collection, or more where records depend on those before them. */

import { parseStoredName, vectorDimension } from '#engines/vectors/collections.ts'
import type { Payload, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, done, park, split, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consume/consumer.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parsePointKey } from '#topics/catalog.ts'
import { isLeftOut, readStandings, type Standings } from '../collections/leave-out.ts'
import type { Collections } from '../collections/registry.ts'
import { type BasedParts, basisOf, type Read, writeInOrder } from './based-records.ts'
import { type StuckRecords, skippedReason } from './failures.ts'
import type { EngineCalls, Pending } from './generation-writer.ts'
import { joinCalls } from './join-calls.ts'

/** How many operations share a call, and how long later ones wait for the end of a running one. */
const joined = {
  /** A request over the network is dear. */
  distant: { operationsMax: 2_000, gatherMsMax: 50 },
  /** The engine's own thread has a queue: a partition goes on while the thread writes those of others, so it is never without work. */
  within: { operationsMax: 100, gatherMsMax: 0 },
}

/** Writes of several partitions into one collection share a call; one that takes long holds no other up. */
export function joinApplies(
  apply: VectorStore['apply'],
  generation: number,
  { driver = 'qdrant', tracing }: { driver?: VectorStore['driver']; tracing?: Tracing } = {},
) {
  const join = joinCalls<{ collection: string; operations: PointOperation[] }>({
    ...joined[driver === 'qdrant' ? 'distant' : 'within'],
    givenUp: 'vector_engine_unavailable',
    tracing,
    call: (writes, signal) =>
      apply(
        writes[0]!.collection,
        writes.flatMap(({ operations }) => operations),
        { generation, signal },
      ),
  })
  return (
    collection: string,
    operations: PointOperation[],
    options: { signal: AbortSignal; alone?: boolean },
  ): Promise<void> => join({ collection, operations }, { ...options, group: collection })
}

interface HandlerParts {
  applyPoints: ReturnType<typeof joinApplies>
  /** Epoch of the topic that the messages are read from. */
  epoch: number
  calls: EngineCalls
  stuck: Pick<StuckRecords, 'isSkipped'>
  collections: Pick<Collections, 'standing'>
  based: BasedParts
  /** Called with the records of a batch before it is done; collections that are gone are among the standings. */
  leftOut?(messages: Message<VectorUpsert>[], standings: Standings): Promise<void>
}

type Context = Pick<CallContext, 'signal' | 'partition'>

export function createHandler(parts: HandlerParts) {
  return async function writeVectors(
    messages: Message<VectorUpsert>[],
    context: Context,
  ): Promise<BatchOutcome[]> {
    const asked = readStandings(messages, parts.collections)
    const standings = asked instanceof Promise ? await asked : asked
    if ('kind' in standings) return messages.map(() => standings)
    const outcomes = new Array<BatchOutcome>(messages.length).fill(done)
    const groups = new Map<string, Read[]>()
    messages.forEach((message, index) => {
      const parsed = parseOperation(message, { ...parts, standings })
      if (parsed === 'left out') return
      if ('fault' in parsed) {
        outcomes[index] = park(parsed.fault)
        return
      }
      const group = groups.get(parsed.collection) ?? []
      groups.set(parsed.collection, group)
      const { offset, key, timestamp } = message
      group.push({
        index,
        offset,
        key,
        timestamp,
        operation: parsed.operation,
        basis: basisOf(message.headers),
      })
    })
    const write = (collection: string) => (part: Pending<PointOperation>[]) =>
      writeCollection(parts, collection, part, context, outcomes)
    await Promise.all(
      [...groups].map(([collection, group]) =>
        writeInOrder(parts.based, collection, group, write(collection), outcomes),
      ),
    )
    await parts.leftOut?.(messages, standings)
    return outcomes
  }
}

/**
 * Writes the last operation of each point. Where the engine refuses them, halving the batch lets the operation before
 * the refused one count, as it would have without batches. Resolves with the outcome of those that are not written; null: none.
 */
async function writeCollection(
  { applyPoints, calls }: HandlerParts,
  collection: string,
  group: Pending<PointOperation>[],
  context: Context,
  outcomes: BatchOutcome[],
): Promise<BatchOutcome | null> {
  const last = [...new Map(group.map((one) => [one.operation.id, one])).values()]
  const { written, fault } = await calls.write(last, context, (some, alone) => {
    const operations = some.map(({ operation }) => operation)
    return applyPoints(collection, operations, { signal: context.signal, alone })
  })
  if (written === last.length) return null
  const outcome = outcomeOfFault('vectors', fault)
  const left = new Set(last.slice(written).map(({ operation }) => operation.id))
  for (const { index, operation } of group) if (left.has(operation.id)) outcomes[index] = outcome
  return outcome
}

const vectorBytes = vectorDimension * Float32Array.BYTES_PER_ELEMENT

/** `epoch` is that of the topic the message was read from. */
export function parseOperation(
  message: Message<VectorUpsert>,
  { epoch, stuck, standings }: Pick<HandlerParts, 'epoch' | 'stuck'> & { standings: Standings },
): { collection: string; operation: PointOperation } | { fault: string } | 'left out' {
  if (stuck.isSkipped(message.partition, message.offset)) return { fault: skippedReason }
  const key = parsePointKey(message.key)
  if (!key || key.id === '') return { fault: 'the key names no collection and point' }
  const { collection, id } = key
  if (!parseStoredName(collection))
    return { fault: `there is no collection named ${collection.slice(0, 100)}` }
  if (isLeftOut(collection, standings)) return 'left out'
  const position = { epoch, offset: message.offset }
  if (message.value === null) return { collection, operation: { kind: 'delete', id, position } }
  const payload = parsePayload(message.value.payload)
  if (!payload) return { fault: 'the payload is not a JSON object' }
  const bytes = message.value.vector
  if (bytes.length !== vectorBytes) {
    return { fault: `the vector has ${bytes.length} bytes instead of ${vectorBytes}` }
  }
  const { embedder, expires_at: expiresAt } = message.value
  const made = {
    ...(embedder === null ? {} : { embedder }),
    ...(expiresAt === null ? {} : { expiresAt }),
  }
  return {
    collection,
    operation: { kind: 'upsert', id, position, vector: floatsOf(bytes), payload, ...made },
  }
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

/** Outcome of the records that were not written. Rethrows a fault that says nothing about engine or records. */
export function outcomeOfFault(engine: string, fault: unknown): BatchOutcome {
  if (isUnavailable(fault)) return unavailable(engine, fault.message)
  if (fault instanceof AppError && fault.code === 'validation_failed') return split(fault.message)
  throw fault
}
