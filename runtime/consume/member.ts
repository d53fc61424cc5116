/** A member of a consumer group: gains and loses partitions, and owns what they share (calls, breaker, memory, metrics). */

import type { Logger } from 'pino'
import type { ConsumerListener, GainedPartition, GroupConsumer } from '#engines/event-log/port.ts'
import { createWakeup, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import type { SchemaName } from '#topics/topic.ts'
import { retryUntilDone, startRepeating } from '../repeat.ts'
import { SharedRests } from './committer.ts'
import { bookkeepingOf, shareOf } from './event-ids.ts'
import { EngineBreaker, HandlerCalls } from './handler-calls.ts'
import { registerGroup } from './metrics.ts'
import { Partition, type PartitionOptions } from './partition.ts'
import type { GroupContext } from './partition-host.ts'
import { decideStart, hasDied, nameOwner } from './position.ts'
import { Gathering, type Shares } from './record-buffer.ts'
import type { ConsumerDependencies, ConsumerOptions, PartitionReading, RunningConsumer } from './types.ts'

/** Between two ticks while nothing waits. */
const restMs = 5_000
const { handOverCallsMs } = deadlines.session
const { callsMs: stopCallsMs } = deadlines.stop

export class Member implements RunningConsumer {
  readonly #dependencies: ConsumerDependencies
  readonly #options: ConsumerOptions<SchemaName>
  readonly #log: Logger
  readonly #topicName: string
  readonly #group: GroupContext
  readonly #createRunner: PartitionOptions['createRunner']
  readonly #unregister: () => void
  /** Resolves once the log has let this member into the group. */
  readonly #joined = Promise.withResolvers<GroupConsumer>()
  readonly #partitions = new Map<number, Partition>()
  /** Partitions that never started, and why. */
  readonly #refused = new Map<number, string>()
  /** The last assignment of each partition; an older one that is still being worked out is void. */
  readonly #gains = new Map<number, symbol>()
  /** Ends of calls that ran when a partition was lost: the partition may come back sooner, and waits for them. */
  readonly #leaving = new Map<number, Promise<void>>()
  readonly #closing = new AbortController()
  #ticking: Closeable | undefined
  /** Ends the rest between two ticks: records have come. */
  readonly #wakeup = createWakeup()
  /** When last looked, something waited: so it is looked often. */
  #waits = true
  #closed: Promise<void> | undefined
  /** Ends of the log by partition, as last asked for. */
  #ends: { at: number; of: Map<number, number> } = { at: 0, of: new Map() }

  constructor(
    dependencies: ConsumerDependencies,
    options: ConsumerOptions<SchemaName>,
    {
      createRunner,
      ...limits
    }: Pick<GroupContext, 'bufferPart' | 'hurries'> & Pick<PartitionOptions, 'createRunner'>,
  ) {
    const { eventLog, publisher, metrics, log } = dependencies
    this.#dependencies = dependencies
    this.#options = options
    this.#createRunner = createRunner
    this.#topicName = publisher.locationOf(options.topic).physicalName
    this.#log = log.child({ group: options.group, topic: this.#topicName })
    const registered = registerGroup(metrics, {
      group: () => options.shownAs?.() ?? options.group,
      topic: this.#topicName,
      read: () => this.readings(),
    })
    this.#unregister = registered.unregister
    const bookkeeping = bookkeepingOf(eventLog)
    this.#group = {
      ...limits,
      options,
      publisher,
      log: this.#log,
      breaker: new EngineBreaker(options, this.#log, () => this.#wakeAll()),
      calls: new HandlerCalls(options.callTimeoutMs, options.engine),
      gathering: new Gathering(options.gatherMs ?? 0, () => {
        for (const { buffer } of this.#partitions.values()) buffer.updateFetching()
      }),
      rests: new SharedRests(),
      exclusive: { held: false },
      // In every commit: a partition that comes back with it had no other owner.
      token: nameOwner(eventLog.clientId),
      // The writer of an index waits for its engine, whatever happens to its process meanwhile.
      blamesRecords: options.blamesRecords ?? options.engine === undefined,
      hasDied: (owner) => hasDied(owner, { eventLog, name: options.group, topic: this.#topicName }),
      metrics: registered.metrics,
      wakeAll: () => this.#wakeAll(),
      bookkeeping,
      shareBytes: () => shareOf(this.#partitions.size, bookkeeping.bytes),
    }
  }

  async join(): Promise<void> {
    const { group } = this.#options
    try {
      const consumer = await this.#dependencies.eventLog.consume({
        group,
        topic: this.#topicName,
        listener: this.#listener(),
      })
      this.#joined.resolve(consumer)
    } catch (error) {
      this.#unregister()
      throw error
    }
    const everyMs = () =>
      this.#waits ? Math.max(5, Math.min(200, this.#options.callTimeoutMs / 10)) : restMs
    const ticks = { what: 'consumer tick', everyMs, wakeup: this.#wakeup, log: this.#log }
    this.#ticking = startRepeating(ticks, async () => this.#tick())
  }

  pause(): void {
    this.#group.breaker.setPaused(true)
    for (const partition of this.#partitions.values()) partition.buffer.setStopped(true)
  }

  resume(): void {
    this.#group.breaker.setPaused(false)
    for (const partition of this.#partitions.values()) partition.buffer.setStopped(false)
  }

  /** Heads of lanes of this partition that wait for a time are tried now. */
  wake(partition: number): void {
    this.#partitions.get(partition)?.runner.wake?.()
  }

  state(): ReturnType<RunningConsumer['state']> {
    const stopped = [...this.#refused].map(([partition, why]) => ({ partition, why }))
    for (const partition of this.#partitions.values()) {
      if (partition.stopped !== null) stopped.push({ partition: partition.id, why: partition.stopped })
    }
    return {
      partitions: [...this.#partitions.keys(), ...this.#refused.keys()].sort((a, b) => a - b),
      waitingFor: this.#group.breaker.waitingFor,
      inFlight: this.#group.calls.size,
      stopped,
    }
  }

  async readings(): Promise<PartitionReading[]> {
    const ends = await this.#endsOfLog()
    return [...this.#partitions.values()].map(({ id, committed, runner, stopped, oldestAtMs }) => {
      const end = ends.get(id)
      const lag = end === undefined ? null : Math.max(0, end - committed)
      return {
        partition: id,
        lag,
        committed,
        waiting: end === undefined ? null : (runner.waiting(end) ?? lag),
        // Records of a paused group wait on purpose: no alarm should look at their age.
        oldestAtMs: this.#group.breaker.paused ? null : oldestAtMs,
        inFlight: runner.inFlight(),
        window: runner.window(),
        stopped: stopped !== null,
      }
    })
  }

  close(): Promise<void> {
    this.#closed ??= this.#leave()
    return this.#closed
  }

  async #leave(): Promise<void> {
    this.#closing.abort()
    for (const partition of this.#partitions.values()) partition.buffer.setStopped(true)
    await Promise.all([...this.#partitions.values()].map((partition) => partition.drain(stopCallsMs)))
    this.#group.breaker.close()
    await this.#ticking?.close()
    this.#unregister()
    await (await this.#joined.promise).close()
  }

  #listener(): ConsumerListener {
    return {
      assigned: async (gained) => await this.#gain(await this.#joined.promise, gained),
      revoked: async (partitions) => {
        const moving = partitions.map((id) => this.#partitions.get(id)?.drain(handOverCallsMs))
        await Promise.all(moving)
      },
      lost: (partitions) => {
        for (const id of partitions) this.#lose(id)
      },
      records: (id, records) => {
        this.#partitions.get(id)?.receive(records)
        this.#group.gathering.begin(records)
        if (!this.#waits) this.#wakeup.wake()
      },
      misplaced: (id, problem) => this.#partitions.get(id)?.misplaced(problem),
    }
  }

  async #gain(consumer: GroupConsumer, gained: GainedPartition[]): Promise<Map<number, number>> {
    const gain = Symbol('gain')
    for (const { partition } of gained) this.#gains.set(partition, gain)
    const handedOver = await this.#askPositions(gained, gain)
    const starts = new Map<number, number>()
    for (const one of gained) {
      if (this.#gains.get(one.partition) !== gain || this.#closing.signal.aborted) continue
      const readFrom = this.#start(consumer, one, handedOver.get(one.partition))
      if (readFrom !== null) starts.set(one.partition, readFrom)
    }
    return starts
  }

  /** The first offset to read, or null when the partition must not start. */
  #start(consumer: GroupConsumer, gained: GainedPartition, handedOver: number | undefined): number | null {
    const id = gained.partition
    const start = decideStart(gained, handedOver, this.#options.topic.cleanup, Date.now())
    if (start.kind === 'stop') {
      this.#refused.set(id, start.why)
      this.#log.error({ partition: id, why: start.why }, 'consumer.partition-stopped')
      return null
    }
    if (start.unknownFormat) {
      const place = { partition: id, position: start.position }
      this.#log.warn(place, 'consumer.unknown-metadata')
    }
    const partition = new Partition({
      group: this.#group,
      createRunner: this.#createRunner,
      consumer,
      id,
      start,
      end: gained.end,
      ownCalls: this.#leaving.get(id),
    })
    this.#partitions.set(id, partition)
    // What the worker knows to be done is committed without waiting for a record: lag is read from commits.
    if (start.position > (gained.committed?.offset ?? start.position)) partition.open()
    return start.readFrom
  }

  /** Positions that the worker keeps itself; asked until it answers. */
  async #askPositions(gained: GainedPartition[], gain: symbol): Promise<Map<number, number>> {
    let positions = new Map<number, number>()
    const ask = async () => {
      const wanted = gained.filter(({ partition }) => this.#gains.get(partition) === gain)
      if (wanted.length === 0) return
      const asked = wanted.map(({ partition, committed }) => ({
        partition,
        committed: committed?.offset ?? null,
      }))
      positions = (await this.#options.onAssigned?.(asked)) ?? positions
    }
    await retryUntilDone('onAssigned', ask, this.#closing.signal, this.#log)
    return positions
  }

  #lose(id: number): void {
    this.#gains.delete(id)
    this.#refused.delete(id)
    const partition = this.#partitions.get(id)
    if (!partition) return
    this.#partitions.delete(id)
    partition.lose()
    const ended = Promise.all([this.#leaving.get(id), partition.runner.idle()]).then(() => {
      if (this.#leaving.get(id) === ended) this.#leaving.delete(id)
    })
    this.#leaving.set(id, ended)
  }

  #wakeAll(): void {
    for (const partition of this.#partitions.values()) partition.pump()
  }

  #tick(): void {
    this.#group.calls.abortOverdue()
    const nowMs = Date.now()
    const shares: Shares = new Map()
    for (const { buffer, runner } of this.#partitions.values()) {
      buffer.addShares(shares)
      runner.addShares?.(shares)
    }
    for (const partition of this.#partitions.values()) {
      partition.tick(nowMs, shares)
      // Heartbeats work again after a silence: nothing else says so.
      partition.pump()
    }
    const waits = (partition: Partition) => !partition.atRest
    this.#waits = this.#group.calls.size > 0 || [...this.#partitions.values()].some(waits)
  }

  /** Asked at most once a second. While the log does not answer, what it said last. */
  async #endsOfLog(): Promise<Map<number, number>> {
    const now = performance.now()
    if (now - this.#ends.at > 1_000 || this.#ends.at === 0) {
      const asked = this.#dependencies.eventLog.offsets(this.#topicName)
      const late = () => new Error('no answer in time')
      const ranges = await withTimeout(asked, 1_000, late).catch(() => null)
      const of = ranges ? new Map(ranges.map((range) => [range.partition, range.end])) : this.#ends.of
      this.#ends = { at: now, of }
    }
    return this.#ends.of
  }
}
