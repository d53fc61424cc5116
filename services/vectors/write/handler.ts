/** Applies a batch of one partition to the vector engine, with one call for each collection, or more where records depend on those before them. */

import type { Span } from '@opentelemetry/api'
import { parseStoredName, vectorDimension } from '#engines/vectors/collections.ts'
import type { Payload, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { unlessAborted } from '#lib/backoff.ts'
import { AppError, type ErrorCode, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, done, park, split, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consume/consumer.ts'
import { noTracing, type Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parsePointKey } from '#topics/catalog.ts'
import { isLeftOut, readStandings, type Standings } from '../collections/leave-out.ts'
import type { Collections } from '../collections/registry.ts'
import { type BasedParts, basisOf, type Read, writeInOrder } from './based-records.ts'
import { type StuckRecords, skippedReason } from './failures.ts'
import type { EngineCalls, Pending } from './generation-writer.ts'

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

interface JoinParts<T> {
  /** Writes of callers with the same group. It is aborted when all of them have given up. */
  call(writes: T[], signal: AbortSignal): Promise<void>
  /** Operations that one call takes at most, unless one caller alone has more. */
  operationsMax: number
  /** Calls that run at the same time; as many as there are when it is left out. */
  callsMax?: number
  /** While a call runs, later writes wait for its end to go together, but no longer than this. */
  gatherMsMax?: number
  /** The code of the fault that a caller gets when its signal aborts. */
  givenUp: ErrorCode
  tracing?: Tracing | undefined
}

interface Joined<T> {
  write: T
  group: string
  alone: boolean
  /** Nobody waits for it any more when it is aborted. */
  signal: AbortSignal | undefined
  /** The spans that it is done for. */
  spans: readonly Span[]
  resolve(): void
  reject(error: unknown): void
}

/**
 * Each partition has a batch of its own, and a request of many points touches all of them: writes of one turn of the
 * event loop, or those that arrive while calls run, go together into one call, because its price (a message to the engine,
 * a transaction, the wait for the disk) is paid once then. Batches on their way at the same time are of different
 * partitions, so they share no point. Where the engine refuses a joined call, each write is tried alone, so that each
 * caller learns of its own fault only.
 */
export function joinCalls<T extends { operations: readonly unknown[] }>(parts: JoinParts<T>) {
  const { operationsMax, callsMax = Number.POSITIVE_INFINITY, gatherMsMax = 0, tracing = noTracing } = parts
  let waiting: Joined<T>[] = []
  let running = 0
  let planned = false
  let gathering: NodeJS.Timeout | undefined

  function enter(one: Joined<T>): void {
    if (one.alone && running < callsMax) return void begin([one])
    waiting.push(one)
    if (running === 0 || gatherMsMax === 0) plan()
    else gathering ??= setTimeout(pump, gatherMsMax)
  }
  /** Partitions hand in their batches within one turn of the event loop: the first waits for the others. */
  function plan(): void {
    if (!planned) setImmediate(pump)
    planned = true
  }
  function pump(): void {
    planned = false
    clearTimeout(gathering)
    gathering = undefined
    while (waiting.length > 0 && running < callsMax) void begin(takeNext())
  }
  function takeNext(): Joined<T>[] {
    const first = waiting[0]!
    const taken = new Set<Joined<T>>()
    let operations = 0
    for (const one of waiting) {
      if (one.group !== first.group) continue
      operations += one.write.operations.length
      if (taken.size > 0 && (operations > operationsMax || one.alone || first.alone)) break
      taken.add(one)
    }
    waiting = waiting.filter((one) => !taken.has(one))
    return [...taken]
  }
  async function begin(part: Joined<T>[]): Promise<void> {
    running++
    const refused = await callFor(part.filter(({ signal }) => !signal?.aborted))
    running--
    for (const one of refused) {
      one.alone = true
      enter(one)
    }
    if (waiting.length > 0 && (running === 0 || gatherMsMax === 0)) plan()
  }
  /** Settles the callers, but for those that are to be tried alone. */
  async function callFor(callers: Joined<T>[]): Promise<Joined<T>[]> {
    if (callers.length === 0) return []
    const abandoned = new AbortController()
    const leave = () => {
      if (callers.every(({ signal }) => signal?.aborted)) abandoned.abort()
    }
    for (const { signal } of callers) signal?.addEventListener('abort', leave)
    try {
      const writes = callers.map(({ write }) => write)
      const call = () => parts.call(writes, abandoned.signal)
      const spans = callers.flatMap((one) => one.spans)
      await tracing.run(spans, call)
      for (const one of callers) one.resolve()
    } catch (error) {
      const refused = error instanceof AppError && error.code === 'validation_failed'
      if (refused && callers.length > 1) return callers
      for (const one of callers) one.reject(error)
    } finally {
      for (const { signal } of callers) signal?.removeEventListener('abort', leave)
    }
    return []
  }

  /**
   * Only writes of the same group share a call, and none does with one that is `alone`. Rejects at once when the signal
   * aborts.
   */
  return (
    write: T,
    options: { group?: string; signal?: AbortSignal | undefined; alone?: boolean | undefined },
  ): Promise<void> => {
    const { group = '', signal, alone = false } = options
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const spans = tracing.current()
    if (!signal?.aborted) enter({ write, group, alone, signal, spans, resolve, reject })
    const givenUp = () => new AppError(parts.givenUp, 'The call was given up.')
    return signal ? unlessAborted(promise, signal, givenUp) : promise
  }
}
