/**
 * One request for records of several partitions, to their leader, and what its answer holds: the records without what Kafka and
 * producers keep there for themselves (markers, transactions that were given up, fences).
 */

import {
  type Connection,
  createAPI,
  FetchIsolationLevels,
  fetchV13,
  IS_CONTROL,
  IS_TRANSACTIONAL,
  Reader,
  type RecordsBatch,
  Writer,
} from '@platformatic/kafka'
import type { StoredRecord } from '../port.ts'
import { responseOf } from './calls.ts'
import { fenceHeader } from './partition-writer.ts'

/** A partition and where it is read. */
export interface Reading {
  readonly partition: number
  /** The offset that is expected next; null while nothing is read. */
  position: number | null
  paused: boolean
  /** The leader's epoch of the last batch that was read: the broker refuses a position of a log that it cut off. */
  epoch: number
  /**
   * That of the leader who is asked. Without it a broker that follows by now would answer, too, and say of a position that it has
   * not reached yet that its log was cut off (KIP-320, KIP-392).
   */
  leaderEpoch: number
}

export interface FetchedPartition extends FetchedBatches {
  partitionIndex: number
  errorCode: number
  divergingEpoch?: { endOffset: bigint }
}

/** The leader's log was cut off below the position. */
export function isDiverging({ divergingEpoch }: FetchedPartition): boolean {
  return divergingEpoch !== undefined && divergingEpoch.endOffset >= 0n
}

/** Nothing has come since the position. */
export function isEmpty(part: FetchedPartition | undefined): boolean {
  return part?.errorCode === 0 && !isDiverging(part) && (part.records?.length ?? 0) === 0
}

/** The part of a request for one topic. */
export interface FetchedTopic {
  topicId: string
  /** From where each partition is read. */
  from: ReadonlyMap<Reading, number>
  partitionBytesMax: number
}

/** By partition; one that is missing was refused as a whole. */
export type FetchAnswer = ReadonlyMap<number, FetchedPartition>

/** What one answer brings at most, and so what one record may keep alive. A larger single batch still comes. */
const answerBytesMax = 4_194_304
const notKnown = -1

const { key: apiKey, version: apiVersion } = fetchV13.api
/**
 * As the library's, but with a request that is written before: the library keeps the parts of a request until its answer
 * comes. And the answer is read later, over one piece of memory: the library reads that faster than the pieces in which it came.
 */
const fetchCall = createAPI<[request: Buffer], Buffer>(
  apiKey,
  apiVersion,
  (request) => Writer.create().append(request),
  (_id, _key, _version, reader) => reader.buffer.slice(reader.position),
)

/** A request for these topics. The broker holds it back for `waitMs` while there are no records. */
export function writeFetch(topics: readonly FetchedTopic[], waitMs: number): Buffer {
  const asked = topics.map(({ topicId, from, partitionBytesMax }) => ({
    topicId,
    partitions: [...from].map(([{ partition, epoch, leaderEpoch }, position]) => ({
      partition,
      currentLeaderEpoch: leaderEpoch,
      fetchOffset: BigInt(position),
      lastFetchedEpoch: epoch,
      partitionMaxBytes: partitionBytesMax,
    })),
  }))
  const level = FetchIsolationLevels.READ_COMMITTED
  return fetchV13.createRequest(waitMs, 1, answerBytesMax, level, 0, notKnown, asked, [], '').buffer
}

/** By topic id. */
export type FetchAnswers = ReadonlyMap<string, FetchAnswer>

/** The answer as it came. Rejects when none comes. */
export const fetchBody: (connection: Connection, request: Buffer) => Promise<Buffer> = fetchCall.async

/** Rejects when no answer comes, or one that cannot be read. */
export async function fetchPartitions(connection: Connection, request: Buffer): Promise<FetchAnswers> {
  return readAnswers(await fetchBody(connection, request))
}

/** Throws where the answer cannot be read. */
export function readAnswers(body: Buffer): FetchAnswers {
  return new Map(
    readResponse(body).responses.map(({ topicId, partitions }) => [
      topicId,
      new Map(partitions.map((one) => [one.partitionIndex, one])),
    ]),
  )
}

function readResponse(body: Buffer): fetchV13.FetchResponse {
  try {
    return fetchV13.parseResponse(notKnown, apiKey, apiVersion, Reader.from(body))
  } catch (error) {
    return responseOf(error)
  }
}

interface FetchedBatches {
  records?: RecordsBatch[] | null
  abortedTransactions: { producerId: bigint; firstOffset: bigint }[] | null
}

interface Taken {
  records: StoredRecord[]
  /** The position behind all that was fetched. */
  next: number
  /** The leader's epoch of the last batch; -1 when there was none. */
  epoch: number
  /** Offsets that are missing between `from` and `next`: where they begin, and the first one behind them. */
  gap: { from: number; to: number } | null
}

const appendTime = 8
const abortMarker = 0
const fenceName = Buffer.from(fenceHeader)

/** Records below `from` are left out: a fetch brings whole batches. Offsets and times: exact below 2^53. */
export function takeRecords(partition: number, fetched: FetchedBatches, from: number): Taken {
  const taken: Taken = { records: [], next: from, epoch: -1, gap: null }
  const isAborted = abortedBatches(fetched.abortedTransactions ?? [])
  for (const batch of fetched.records ?? []) {
    const first = Number(batch.firstOffset)
    const next = first + batch.lastOffsetDelta + 1
    if (first > taken.next) taken.gap ??= { from: taken.next, to: first }
    const hidden = isAborted(batch) || (batch.attributes & IS_CONTROL) !== 0
    if (!hidden && next > from) addRecords(partition, batch, from, taken.records)
    taken.next = Math.max(taken.next, next)
    taken.epoch = batch.partitionLeaderEpoch
  }
  return taken
}

function addRecords(partition: number, batch: RecordsBatch, from: number, records: StoredRecord[]): void {
  const firstOffset = Number(batch.firstOffset)
  const firstTime = Number(batch.firstTimestamp)
  const appendedAt = (batch.attributes & appendTime) === 0 ? null : Number(batch.maxTimestamp)
  for (const { offsetDelta, timestampDelta, key, value, headers } of batch.records) {
    const offset = firstOffset + offsetDelta
    // A fence has no value: the headers of all others need not be looked at.
    if (offset < from || (value === null && isFence(headers))) continue
    const timestamp = appendedAt ?? firstTime + Number(timestampDelta)
    records.push(new FetchedRecord(partition, offset, timestamp, key, value, headers))
  }
}

/** Asked for each batch in turn: does it belong to a transaction that was given up? */
function abortedBatches(transactions: { producerId: bigint; firstOffset: bigint }[]) {
  const coming = [...transactions].sort((a, b) => Number(a.firstOffset - b.firstOffset))
  const aborted = new Set<bigint>()
  return (batch: RecordsBatch): boolean => {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta)
    while (coming[0] && coming[0].firstOffset <= last) aborted.add(coming.shift()!.producerId)
    const transactional = (batch.attributes & IS_TRANSACTIONAL) !== 0
    if ((batch.attributes & IS_CONTROL) !== 0) {
      // A marker's key is its version and its kind.
      if (batch.records[0]?.key?.readInt16BE(2) === abortMarker) aborted.delete(batch.producerId)
      return false
    }
    return transactional && aborted.has(batch.producerId)
  }
}

function isFence(headers: RawHeaders): boolean {
  return headers.some(([name]) => name?.length === fenceName.length && name.equals(fenceName))
}

/** Name and value, in the order of the record; a name may occur several times. */
type RawHeaders = readonly (readonly [Buffer | null, Buffer | null])[]

/** The texts of the headers are made only when they are asked for: most never are. */
class FetchedRecord implements StoredRecord {
  readonly partition: number
  readonly offset: number
  readonly timestamp: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly #raw: RawHeaders
  #headers: Record<string, string> | undefined

  constructor(
    partition: number,
    offset: number,
    timestamp: number,
    key: Buffer | null,
    value: Buffer | null,
    headers: RawHeaders,
  ) {
    this.partition = partition
    this.offset = offset
    this.timestamp = timestamp
    this.key = key
    this.value = value
    this.#raw = headers
  }

  /** The last one wins where a header occurs several times. */
  get headers(): Record<string, string> {
    if (this.#headers === undefined) {
      const texts: Record<string, string> = {}
      for (const [name, value] of this.#raw) texts[name?.toString() ?? ''] = value?.toString() ?? ''
      this.#headers = texts
    }
    return this.#headers
  }

  headerBytes(name: string): Buffer | undefined {
    const found = this.#raw.findLast(
      ([raw]) => raw?.length === name.length && raw.toString('latin1') === name,
    )
    return found && (found[1] ?? Buffer.alloc(0))
  }
}
