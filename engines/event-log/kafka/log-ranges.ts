/** Asks the leaders of topics' partitions where their logs begin and end. */

import { FetchIsolationLevels, ListOffsetTimestamps, listOffsetsV8 } from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import { topicNotFound } from '../faults.ts'
import type { PartitionRange } from '../port.ts'
import type { Cluster } from './cluster.ts'

export type LogRanges = ReturnType<typeof createLogRanges>

interface Wanted {
  topic: string
  /** All of them by default. */
  partitions?: number[] | undefined
}

type Answers = listOffsetsV8.ListOffsetsResponse['topics']

/** What one request to a broker is about. */
interface Asked {
  parts: { topic: string; partitions: number[] }[]
  answers: Promise<Answers>
}

/** By topic and partition. */
type Offsets = Map<string, Map<number, number>>

const timeoutMs = deadlines.engine.logAskMs
const notKnown = -1
/** Timers for the same time end within it. */
const momentMs = 3

export function createLogRanges(cluster: Cluster) {
  const connections = cluster.connections(timeoutMs)
  const gathered = new Map<string, Asked>()

  async function leadersOf({ topic, partitions }: Wanted): Promise<Map<number, number[]>> {
    const leaders = await cluster.topics.get(topic)
    if (!leaders) throw topicNotFound(topic)
    const some = partitions ? leaders.filter(({ partition }) => partitions.includes(partition)) : leaders
    if (some.some(({ leader }) => leader < 0) || (partitions && some.length < partitions.length)) {
      cluster.topics.forget(topic)
      throw new Error(`a partition of ${topic} has no leader yet`)
    }
    const byNode = Map.groupBy(some, ({ leader }) => leader)
    return new Map([...byNode].map(([node, led]) => [node, led.map(({ partition }) => partition)]))
  }
  async function questions(
    wanted: readonly Wanted[],
  ): Promise<Map<number, { topic: string; partitions: number[] }[]>> {
    const byTopic = await Promise.all(
      wanted.map(async (one) =>
        [...(await leadersOf(one))].map(([node, partitions]) => ({ node, topic: one.topic, partitions })),
      ),
    )
    return Map.groupBy(byTopic.flat(), ({ node }) => node)
  }
  /** Questions of one moment to one broker are one: the lag of all groups is asked for at a time, and so are tails. */
  function ask(node: number, timestamp: bigint, parts: Asked['parts']): Promise<Answers> {
    const name = `${node} ${timestamp}`
    let asked = gathered.get(name)
    if (!asked) {
      const answers = new Promise<Answers>((resolve) => {
        setTimeout(() => {
          gathered.delete(name)
          resolve(request(node, timestamp, asked!.parts))
        }, momentMs)
      })
      asked = { parts: [], answers }
      gathered.set(name, asked)
    }
    asked.parts.push(...parts)
    return asked.answers
  }
  async function request(node: number, timestamp: bigint, parts: Asked['parts']): Promise<Answers> {
    const topics = [...Map.groupBy(parts, ({ topic }) => topic)].map(([name, ofTopic]) => ({
      name,
      partitions: [...new Set(ofTopic.flatMap(({ partitions }) => partitions))].map((partitionIndex) => ({
        partitionIndex,
        currentLeaderEpoch: notKnown,
        timestamp,
      })),
    }))
    const level = FetchIsolationLevels.READ_UNCOMMITTED
    return (await listOffsetsV8.api.async(await connections.to(node), -1, level, topics)).topics
  }
  async function offsetsAt(timestamp: bigint, wanted: readonly Wanted[]): Promise<Offsets> {
    const asked = [...(await questions(wanted))].map(([node, parts]) => ask(node, timestamp, parts))
    try {
      const found: Offsets = new Map(wanted.map(({ topic }) => [topic, new Map()]))
      for (const { name, partitions } of (await Promise.all(asked)).flat()) {
        for (const { partitionIndex, offset } of partitions) {
          found.get(name)?.set(partitionIndex, Number(offset))
        }
      }
      return found
    } catch (error) {
      for (const { topic } of wanted) cluster.topics.forget(topic)
      throw error
    }
  }
  async function read(wanted: readonly Wanted[]): Promise<Map<string, PartitionRange[]>> {
    const [starts, ends] = await Promise.all([
      offsetsAt(ListOffsetTimestamps.EARLIEST, wanted),
      offsetsAt(ListOffsetTimestamps.LATEST, wanted),
    ])
    return new Map(
      [...ends].map(([topic, ofTopic]) => [topic, rangesBetween(starts.get(topic) ?? new Map(), ofTopic)]),
    )
  }
  /**
   * Ranges of all partitions or of the given ones, in order. Throws when a leader does not answer, or is not known yet, and AppError
   * `not_found` where the topic does not exist.
   */
  async function ranges(topic: string, partitions?: number[]): Promise<PartitionRange[]> {
    return (await read([{ topic, partitions }])).get(topic)!
  }
  /** By topic and partition, with one question to each leader. */
  const endsOf = (topics: readonly string[]): Promise<Offsets> =>
    offsetsAt(
      ListOffsetTimestamps.LATEST,
      [...new Set(topics)].map((topic) => ({ topic })),
    )
  return {
    ranges,
    /** As `ranges`, of all partitions that there are at this moment. */
    rangesNow(topic: string): Promise<PartitionRange[]> {
      cluster.topics.forget(topic)
      return ranges(topic)
    },
    /** As `ranges`, of all partitions of several topics with one question to each leader. */
    rangesOf: (topics: readonly string[]) => read([...new Set(topics)].map((topic) => ({ topic }))),
    /** The ends alone, of all partitions. */
    async ends(topic: string): Promise<{ partition: number; end: number }[]> {
      return [...(await endsOf([topic])).get(topic)!].map(([partition, end]) => ({ partition, end }))
    },
    endsOf,
  }
}

/** A partition whose leader left it out of one of the answers is left out. */
function rangesBetween(starts: Map<number, number>, ends: Map<number, number>): PartitionRange[] {
  return [...ends.keys()]
    .filter((partition) => starts.has(partition))
    .sort((a, b) => a - b)
    .map((partition) => ({ partition, start: starts.get(partition)!, end: ends.get(partition)! }))
}
