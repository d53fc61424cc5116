/**
 * Fetches the partitions of one topic from their leaders: a request waits at the broker for records, some seconds at most.
 *
 * A broker answers the requests of a connection one after the other, and a request that waits cannot be changed. What has to be
 * read at once although a request waits goes over a second connection, with a request of its own. Where both wait, the older
 * one is given up by closing its connection. So a broker has two requests of a reader at most. Partitions that brought nothing
 * for a whole wait are left to the request that all readers share (quiet-fetcher.ts).
 */

import type { Connection } from '@platformatic/kafka'
import type { Logger } from 'pino'
import { deadlines } from '#lib/deadlines.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Cluster, Connections } from './cluster.ts'
import {
  type FetchAnswer,
  type FetchedPartition,
  type FetchedTopic,
  fetchPartitions,
  isEmpty,
  type Reading,
  writeFetch,
} from './fetch-call.ts'
import type { QuietFetcher, QuietSource } from './quiet-fetcher.ts'

interface FetchSource {
  /** What shall be read now. */
  readable(): Reading[]
  /** The answer for a partition that was to be read at `from`; it may be read elsewhere by now. */
  fetched(reading: Reading, from: number, answer: FetchedPartition): void
  /** The log of the partition does not hold `from`. */
  outOfRange(reading: Reading, from: number): void
  /** The topic was deleted, and made again under its name. */
  replaced(): void
}

/** A request that is under way, and from where it reads. */
interface Flight {
  node: number
  lane: number
  from: Map<Reading, number>
  /** Null while there is no connection yet. */
  sent: { at: number; connection: Connection; bytesRead: number } | null
  abandoned: boolean
}

/** How long a fetch waits for records, and when one without an answer is given up. */
const { logFetchWaitMs: waitMs, logRequestMs: requestTimeoutMs } = deadlines.engine
const lanesMax = 2
/** Requests that bring records answer sooner than this: only those that wait are given up. */
const reliefMs = 50
const retryPauseMs = 200
const unreadablePauseMs = 5_000
/** An answer without records that came this much sooner was not held back for the whole wait. */
const earlyMs = 100
const offsetOutOfRange = 1
const nobody = { leader: -1, leaderEpoch: -1 }

export class Fetcher implements Closeable, QuietSource {
  readonly #cluster: Cluster
  readonly #quietFetcher: QuietFetcher
  readonly #options: { topic: string; fetchBytesMax: number }
  readonly #source: FetchSource
  readonly #log: Logger
  readonly #lanes: Connections[]
  readonly #flights = new Set<Flight>()
  /** Not to be fetched for a short while. */
  readonly #held = new Set<Reading>()
  /** One of them cannot be read: until it is known which, each is fetched alone. */
  readonly #suspects = new Set<Reading>()
  readonly #relief = new Map<number, NodeJS.Timeout>()
  /** Those that brought nothing for a whole wait, and the broker that leads them. */
  readonly #quiet = new Map<Reading, number>()
  #topicId: string | undefined
  readonly #formerIds = new Set<string>()
  #turn = 0
  #waking = false
  #pumping = false
  #closed = false

  constructor(
    { cluster, quiet }: { cluster: Cluster; quiet: QuietFetcher },
    options: { topic: string; fetchBytesMax: number },
    source: FetchSource,
    log: Logger,
  ) {
    this.#cluster = cluster
    this.#quietFetcher = quiet
    this.#options = options
    this.#source = source
    this.#log = log
    this.#lanes = Array.from({ length: lanesMax }, () => cluster.connections(requestTimeoutMs))
  }

  /** The wanted partitions changed: they are fetched at once. */
  wake(): void {
    if (this.#waking || this.#closed) return
    this.#waking = true
    // What changes in this turn shares a request.
    setImmediate(() => {
      this.#waking = false
      void this.#pump()
    })
  }

  quietAt(node: number): FetchedTopic {
    const readable = new Set(this.#source.readable())
    const from = new Map<Reading, number>()
    for (const [reading, at] of this.#quiet) {
      if (!readable.has(reading)) this.#quiet.delete(reading)
      else if (at === node) from.set(reading, reading.position as number)
    }
    return this.#asked(from)
  }

  answered(from: ReadonlyMap<Reading, number>, answer: FetchAnswer | null): void {
    if (this.#closed) return
    if (answer) this.#take(from, answer)
    else for (const reading of from.keys()) this.#quiet.delete(reading)
    if ([...from.keys()].some((reading) => !this.#quiet.has(reading))) this.wake()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#quietFetcher.leave(this)
    for (const timer of this.#relief.values()) clearTimeout(timer)
    await Promise.all(this.#lanes.map((connections) => connections.close()))
  }

  /** Others come first each time, so that a full answer does not always leave out the same. */
  #due(): Reading[] {
    const under = [...this.#flights]
    const all = this.#source
      .readable()
      .filter(
        (reading) =>
          !this.#held.has(reading) &&
          !under.some(({ from }) => from.get(reading) === reading.position) &&
          !this.#quietFetcher.reads(this, reading),
      )
    const first = all.length > 0 ? this.#turn++ % all.length : 0
    return [...all.slice(first), ...all.slice(0, first)]
  }

  async #pump(): Promise<void> {
    if (this.#pumping || this.#closed || this.#due().length === 0) return
    this.#pumping = true
    try {
      const leaderOf = await this.#leaders()
      for (const [node, readings] of Map.groupBy(this.#due(), leaderOf)) this.#send(node, readings)
    } catch (error) {
      const details = { topic: this.#options.topic, error: describeError(error) }
      this.#log.debug(details, 'the leaders of a topic are not known')
      this.#hold(this.#due(), retryPauseMs)
    } finally {
      this.#pumping = false
    }
  }

  /** The node that leads a partition, whose epoch is noted: so nobody else answers, and none that led before is asked with it. */
  async #leaders(): Promise<(reading: Reading) => number> {
    const leaders = (await this.#cluster.topics.get(this.#options.topic)) ?? []
    const topicId = leaders[0]?.topicId
    if (topicId !== undefined && topicId !== this.#topicId) {
      if (this.#formerIds.has(topicId)) throw new Error('a broker knows the topic only as it was')
      const former = this.#topicId
      this.#topicId = topicId
      if (former !== undefined) this.#formerIds.add(former)
      if (former !== undefined && !this.#closed) this.#source.replaced()
    }
    const known = new Map(leaders.map((one) => [one.partition, one]))
    return (reading) => {
      const { leader, leaderEpoch } = known.get(reading.partition) ?? nobody
      if (this.#quiet.get(reading) !== leader) this.#quiet.delete(reading)
      reading.leaderEpoch = leaderEpoch
      return leader
    }
  }

  #hold(readings: Iterable<Reading>, ms: number): void {
    for (const reading of readings) {
      this.#held.add(reading)
      setTimeout(() => {
        this.#held.delete(reading)
        this.wake()
      }, ms).unref()
    }
  }

  #lookAgain(readings: Reading[]): void {
    if (readings.length === 0) return
    this.#cluster.topics.forget(this.#options.topic)
    this.#hold(readings, retryPauseMs)
  }

  #send(node: number, readings: Reading[]): void {
    const taken = [...this.#flights].filter((flight) => flight.node === node).map(({ lane }) => lane)
    const lane = this.#lanes.findIndex((_, index) => !taken.includes(index))
    const suspect = readings.find((reading) => this.#suspects.has(reading))
    if (node === nobody.leader) this.#lookAgain(readings)
    else if (lane < 0) this.#relieve(node)
    else void this.#fly(node, lane, suspect ? [suspect] : readings)
  }

  /** Both connections are busy: when they only wait, the older request is given up and its partitions are asked for again. */
  #relieve(node: number): void {
    if (this.#relief.has(node)) return
    // A process that was busy first reads arrived answers.
    const timer = setTimeout(() => setImmediate(() => this.#makeRoom(node)), reliefMs)
    this.#relief.set(node, timer)
  }

  #makeRoom(node: number): void {
    this.#relief.delete(node)
    const busy = [...this.#flights].filter((flight) => flight.node === node)
    if (busy.length < lanesMax) this.wake()
    if (busy.length < lanesMax || this.#closed || this.#due().length === 0) return
    const now = performance.now()
    const [oldest] = busy
      .filter(
        ({ sent }) =>
          sent && now - sent.at >= reliefMs && sent.connection.socket.bytesRead === sent.bytesRead,
      )
      .sort((a, b) => a.sent!.at - b.sent!.at)
    if (oldest) this.#abandon(oldest)
    else this.#relieve(node)
  }

  #abandon(flight: Flight): void {
    flight.abandoned = true
    flight.from.clear()
    void flight.sent?.connection.close()
  }

  async #fly(node: number, lane: number, readings: Reading[]): Promise<void> {
    const from = new Map(readings.map((reading) => [reading, reading.position as number]))
    const flight: Flight = { node, lane, from, sent: null, abandoned: false }
    this.#flights.add(flight)
    const isSuspect = this.#suspects.has(readings[0]!)
    let answer: FetchAnswer | null = null
    try {
      const connection = await this.#lanes[lane]!.to(node)
      flight.sent = { at: performance.now(), connection, bytesRead: connection.socket.bytesRead }
      const asked = this.#asked(from)
      const answers = await fetchPartitions(connection, writeFetch([asked], isSuspect ? 0 : waitMs))
      answer = answers.get(asked.topicId) ?? new Map()
    } catch (error) {
      if (!this.#closed && !flight.abandoned) this.#failed(flight, readings, error)
    }
    this.#flights.delete(flight)
    if (answer && !this.#closed) {
      this.#take(from, answer)
      this.#leaveQuiet(flight, answer)
    }
    this.wake()
  }

  #asked(from: ReadonlyMap<Reading, number>): FetchedTopic {
    // Nothing is asked for before the leaders are known, and they come with the topic's id.
    return { topicId: this.#topicId as string, from, partitionBytesMax: this.#options.fetchBytesMax }
  }

  #take(from: ReadonlyMap<Reading, number>, answer: FetchAnswer): void {
    const elsewhere: Reading[] = []
    for (const [reading, position] of from) {
      const part = answer.get(reading.partition)
      this.#suspects.delete(reading)
      if (!isEmpty(part)) this.#quiet.delete(reading)
      if (part?.errorCode === 0) this.#source.fetched(reading, position, part)
      else if (part?.errorCode === offsetOutOfRange) this.#source.outOfRange(reading, position)
      else elsewhere.push(reading)
    }
    this.#lookAgain(elsewhere)
  }

  /** After a wait that brought nothing at all. The connection goes: one that rests could break without a sign. */
  #leaveQuiet({ node, from, sent }: Flight, answer: FetchAnswer): void {
    if (!sent || performance.now() - sent.at < waitMs - earlyMs) return
    if (![...from.keys()].every(({ partition }) => isEmpty(answer.get(partition)))) return
    for (const reading of from.keys()) this.#quiet.set(reading, node)
    this.#quietFetcher.join(this, node)
    void sent.connection.close()
  }

  #failed({ sent }: Flight, readings: Reading[], error: unknown): void {
    const partitions = readings.map(({ partition }) => partition)
    const details = { topic: this.#options.topic, partitions, error: describeError(error) }
    // Anything else than silence is an answer that the library cannot read: damage, or an unknown compression.
    if (sent === null || (error as { code?: string }).code === 'PLT_KFK_NETWORK') {
      this.#log.debug(details, 'a fetch got no answer; it is repeated')
      this.#lookAgain(readings)
    } else if (readings.length > 1) {
      for (const reading of readings) this.#suspects.add(reading)
    } else {
      this.#log.error(details, 'topics.partition-unreadable')
      this.#hold(readings, unreadablePauseMs)
    }
  }
}
