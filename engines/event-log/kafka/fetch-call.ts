/** One request for records of several partitions, to their leader. */

import { type Connection, createAPI, FetchIsolationLevels, fetchV13, Reader } from '@platformatic/kafka'
import { responseOf } from './calls.ts'
import type { FetchedBatches } from './fetched-records.ts'

/** A partition and where it is read. */
export interface Reading {
  readonly partition: number
  /** The offset that is expected next; null while nothing is read. */
  position: number | null
  paused: boolean
  /** The leader's epoch of the last batch that was read: the broker refuses a position of a log that it cut off. */
  epoch: number
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

/** What is asked of one topic. */
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

/** As the library's, over one piece of memory: it reads that faster than the pieces in which the answer came. */
const fetchCall = createAPI<Parameters<typeof fetchV13.createRequest>, fetchV13.FetchResponse>(
  fetchV13.api.key,
  fetchV13.api.version,
  fetchV13.createRequest,
  (id, key, version, reader) =>
    fetchV13.parseResponse(id, key, version, Reader.from(reader.buffer.slice(reader.position))),
)

/**
 * The answers by topic id. The broker holds the request back for `waitMs` while there are no records. Rejects when no
 * answer comes, or one that cannot be read.
 */
export async function fetchPartitions(
  connection: Connection,
  topics: readonly FetchedTopic[],
  waitMs: number,
): Promise<Map<string, FetchAnswer>> {
  const asked = topics.map(({ topicId, from, partitionBytesMax }) => ({
    topicId,
    partitions: [...from].map(([{ partition, epoch }, position]) => ({
      partition,
      currentLeaderEpoch: notKnown,
      fetchOffset: BigInt(position),
      lastFetchedEpoch: epoch,
      partitionMaxBytes: partitionBytesMax,
    })),
  }))
  const { responses } = await fetchCall
    .async(
      connection,
      waitMs,
      1,
      answerBytesMax,
      FetchIsolationLevels.READ_COMMITTED,
      0,
      notKnown,
      asked,
      [],
      '',
    )
    .catch(responseOf<fetchV13.FetchResponse>)
  return new Map(
    responses.map(({ topicId, partitions }) => [
      topicId,
      new Map(partitions.map((one) => [one.partitionIndex, one])),
    ]),
  )
}
