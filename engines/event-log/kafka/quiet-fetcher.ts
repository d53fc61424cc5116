/**
 * Fetches what has been quiet: the partitions of all readers of a process that brought nothing for a whole wait share one
 * request for each broker. A platform at rest has some twenty readers, and a request of each was most of what resting
 * cost. A partition that brings records is its own reader's again until it has been quiet for another wait.
 */

import { deadlines } from '#lib/deadlines.ts'
import type { Cluster } from './cluster.ts'
import {
  type FetchAnswer,
  type FetchAnswers,
  type FetchedTopic,
  fetchBody,
  isEmpty,
  type Reading,
  readAnswers,
  writeFetch,
} from './fetch-call.ts'

/** A reader whose quiet partitions are fetched here. */
export interface QuietSource {
  /** What of it is quiet and led by the broker now. */
  quietAt(node: number): FetchedTopic
  /** The answer by position; null where the request failed. Partitions without news stay quiet, and are asked for again. */
  answered(from: ReadonlyMap<Reading, number>, answer: FetchAnswer | null): void
}

type Positions = Map<Reading, number>

/** A request to a broker, and the answer while nothing is new. */
interface Exchange {
  text: string
  request: Buffer
  nothing: { body: Buffer; answers: FetchAnswers } | null
}

interface Flight {
  exchange: Exchange
  /** What of it is read for each source. */
  shares: Map<QuietSource, { topicId: string; from: Positions }>
}

const waitMs = deadlines.engine.logFetchWaitMs

export type QuietFetcher = ReturnType<typeof createQuietFetcher>

export function createQuietFetcher(cluster: Pick<Cluster, 'connections'>) {
  const connections = cluster.connections(deadlines.engine.logRequestMs)
  const sources = new Set<QuietSource>()
  /** The request that each broker has. */
  const flights = new Map<number, Flight>()
  /** The last with each: the next mostly says the same, and to write a request or to read an answer is most of the work at rest. */
  const exchanges = new Map<number, Exchange>()
  let closed = false

  async function fly(node: number): Promise<void> {
    const flight = next(node)
    if (closed || !flight) return
    flights.set(node, flight)
    const answers = await ask(node, flight.exchange)
    flights.delete(node)
    if (closed) return
    for (const [source, { topicId, from }] of flight.shares) {
      if (sources.has(source)) source.answered(from, answers && (answers.get(topicId) ?? new Map()))
    }
    // What one source does with its answer may have begun the next request.
    if (!flights.has(node)) void fly(node)
  }
  /** Null where nothing is quiet. Kept until the answer comes, as little as it can be. */
  function next(node: number): Flight | null {
    const { shares, topics } = joined(sources, node)
    if (shares.size === 0) return null
    const text = topics.map(textOf).join()
    const last = exchanges.get(node)
    if (last?.text === text) return { shares, exchange: last }
    const exchange = { text, request: writeFetch(topics, waitMs), nothing: last?.nothing ?? null }
    exchanges.set(node, exchange)
    return { shares, exchange }
  }
  async function ask(node: number, exchange: Exchange): Promise<FetchAnswers | null> {
    try {
      const body = await fetchBody(await connections.to(node), exchange.request)
      if (exchange.nothing?.body.equals(body)) return exchange.nothing.answers
      const answers = readAnswers(body)
      const isNothing = [...answers.values()].every((answer) => [...answer.values()].every(isEmpty))
      exchange.nothing = isNothing ? { body, answers } : null
      return answers
    } catch {
      // Each reader asks again by itself, and sees what it meets.
      return null
    }
  }
  return {
    /** Something of the source has become quiet: it takes part in the next request to the broker. */
    join(source: QuietSource, node: number): void {
      sources.add(source)
      if (!flights.has(node)) void fly(node)
    },
    leave: (source: QuietSource): void => void sources.delete(source),
    /** Whether a request that is under way reads the partition from its present position. */
    reads(source: QuietSource, reading: Reading): boolean {
      const { position } = reading
      if (position === null) return false
      return [...flights.values()].some(({ shares }) => shares.get(source)?.from.get(reading) === position)
    },
    async close() {
      closed = true
      await connections.close()
    },
  }
}

/**
 * A request names a partition once. Readers of the same one are mostly at the same position, its end; one that is
 * elsewhere goes on fetching by itself.
 */
function joined(sources: ReadonlySet<QuietSource>, node: number) {
  const shares: Flight['shares'] = new Map()
  const topics = new Map<string, { partitionBytesMax: number; readings: Map<number, Reading> }>()
  for (const source of sources) {
    const { topicId, from, partitionBytesMax } = source.quietAt(node)
    const topic = topics.get(topicId) ?? { partitionBytesMax, readings: new Map<number, Reading>() }
    const own: Positions = new Map()
    const elsewhere: Positions = new Map()
    for (const [reading, position] of from) {
      const known = topic.readings.get(reading.partition)
      if (known && known.position !== position) {
        elsewhere.set(reading, position)
        continue
      }
      // Whoever knows the epoch of the last batch lets the broker see whether its log was cut off.
      if (!known || known.epoch < reading.epoch) topic.readings.set(reading.partition, reading)
      own.set(reading, position)
    }
    if (elsewhere.size > 0) source.answered(elsewhere, null)
    if (own.size === 0) continue
    topic.partitionBytesMax = Math.min(topic.partitionBytesMax, partitionBytesMax)
    topics.set(topicId, topic)
    shares.set(source, { topicId, from: own })
  }
  const asked = [...topics].map(([topicId, { partitionBytesMax, readings }]) => ({
    topicId,
    partitionBytesMax,
    from: new Map([...readings.values()].map((reading) => [reading, reading.position as number])),
  }))
  return { shares, topics: asked }
}

/** All that a request says of the topic. */
function textOf({ topicId, from, partitionBytesMax }: FetchedTopic): string {
  const readings = [...from].map(
    ([{ partition, epoch, leaderEpoch }, position]) => `${partition} ${position} ${epoch} ${leaderEpoch}`,
  )
  return [topicId, partitionBytesMax, ...readings].join()
}
