/** Joins a consumer group and hands records to a service's handler: see the parts beside this file. */

import { randomInt } from 'node:crypto'
import type { Logger } from 'pino'
import type { ConsumerListener, GainedPartition, GroupConsumer } from '#engines/event-log/port.ts'
import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { ConsumerDependencies, ConsumerOptions, LaneConsumer } from '../consumer.ts'
import { CommitPace } from './committer.ts'
import { Gate } from './engine-breaker.ts'
import { Calls } from './handler-calls.ts'
import { heldBytesMax, partitionBytesMax, partitionBytesMin, persistWaitMsMax } from './limits.ts'
import { type PartitionReading, registerGroup } from './metrics.ts'
import { Partition } from './partition.ts'
import type { AnyOptions, GroupContext } from './partition-host.ts'
import { decideStart } from './position.ts'

/** Starts a member of the group `options.group`. Resolves at once; partitions come when the log gives them. */
export async function startConsumer<S extends SchemaName>(
  dependencies: ConsumerDependencies,
  options: ConsumerOptions<S>,
): Promise<LaneConsumer> {
  const member = new Member(dependencies, options as unknown as AnyOptions)
  await member.join()
  return member
}

class Member implements LaneConsumer {
  readonly #dependencies: ConsumerDependencies
  readonly #options: AnyOptions
  readonly #log: Logger
  readonly #topicName: string
  /** Stands in every commit: a partition that comes back with it had no other owner. 0 stands for nobody. */
  readonly #token = randomInt(1, 2 ** 32)
  readonly #partitions = new Map<number, Partition>()
  /** Partitions that never started, and why. */
  readonly #refused = new Map<number, string>()
  /** The last assignment of each partition; an older one that is still being worked out is void. */
  readonly #gains = new Map<number, symbol>()
  /** Ends of calls that ran when a partition was lost: the partition may come back sooner. */
  readonly #leaving = new Map<number, Promise<void>>()
  readonly #closing = new AbortController()
  #context: GroupContext | null = null
  #unregister: () => void = () => {}
  #ticker: NodeJS.Timeout | undefined
  #closed: Promise<void> | undefined
  #readings: { at: number; ends: Map<number, number> } = { at: 0, ends: new Map() }

  constructor(dependencies: ConsumerDependencies, options: AnyOptions) {
    this.#dependencies = dependencies
    this.#options = options
    this.#topicName = dependencies.publisher.placeOf(options.topic as Topic<never>).physicalName
    this.#log = dependencies.log.child({ group: options.group, topic: this.#topicName })
  }

  async join(): Promise<void> {
    const joined = Promise.withResolvers<GroupConsumer>()
    const ready = joined.promise.then((consumer) => this.#createContext(consumer))
    const consumer = await this.#dependencies.eventLog.consume({
      group: this.#options.group,
      topic: this.#topicName,
      ...(this.#options.sessionTimeoutMs === undefined
        ? {}
        : { sessionTimeoutMs: this.#options.sessionTimeoutMs }),
      listener: this.#listener(ready),
    })
    joined.resolve(consumer)
    await ready
    const everyMs = Math.max(5, Math.min(200, this.#options.callTimeoutMs / 10))
    this.#ticker = setInterval(() => this.#tick(), everyMs)
  }

  pause(): void {
    this.#context?.gate.pause(true)
    for (const partition of this.#partitions.values()) partition.intake.hold(true)
  }

  resume(): void {
    this.#context?.gate.pause(false)
    for (const partition of this.#partitions.values()) partition.intake.hold(false)
  }

  wake(partition: number): void {
    this.#partitions.get(partition)?.runner.rouse?.()
  }

  readings(): Promise<PartitionReading[]> {
    return this.#read()
  }

  state(): ReturnType<LaneConsumer['state']> {
    const stopped = [...this.#refused].map(([partition, why]) => ({ partition, why }))
    for (const partition of this.#partitions.values()) {
      if (partition.stopped !== null) stopped.push({ partition: partition.id, why: partition.stopped })
    }
    return {
      partitions: [...this.#partitions.keys(), ...this.#refused.keys()].sort((a, b) => a - b),
      waitingFor: this.#context?.gate.waitingFor ?? null,
      inFlight: this.#context?.calls.size ?? 0,
      stopped,
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#leave()
    return this.#closed
  }

  async #leave(): Promise<void> {
    const context = this.#context
    this.#closing.abort()
    for (const partition of this.#partitions.values()) partition.intake.hold(true)
    await Promise.all([...this.#partitions.values()].map((partition) => partition.drain()))
    context?.gate.close()
    clearInterval(this.#ticker)
    this.#unregister()
    await context?.consumer.close()
  }

  #createContext(consumer: GroupConsumer): GroupContext {
    const { codec, publisher, metrics } = this.#dependencies
    const options = this.#options
    const source = { group: options.group, topic: this.#topicName, read: () => this.#read() }
    const registered = registerGroup(metrics, source)
    this.#unregister = registered.unregister
    const context: GroupContext = {
      options,
      topic: options.topic as Topic<never>,
      codec,
      publisher,
      log: this.#log,
      consumer,
      gate: this.#createGate(),
      calls: new Calls(options.callTimeoutMs),
      pace: new CommitPace(),
      exclusive: { held: false },
      token: this.#token,
      wakeAll: () => this.#wakeAll(),
      metrics: registered.metrics,
      shareBytes: () =>
        Math.max(
          partitionBytesMin,
          Math.min(partitionBytesMax, heldBytesMax / Math.max(1, this.#partitions.size)),
        ),
    }
    this.#context = context
    return context
  }

  #createGate(): Gate {
    const { backoff, callTimeoutMs } = this.#options
    return new Gate({
      backoff,
      callTimeoutMs,
      probe: this.#options.probe?.bind(this.#options),
      opened: () => this.#wakeAll(),
      changed: (event, engine, detail) => {
        if (event === 'back') this.#log.info({ engine }, 'engine is back: work goes on')
        else this.#log.warn({ engine, detail }, 'engine is away: the group waits')
      },
    })
  }

  #listener(ready: Promise<GroupContext>): ConsumerListener {
    return {
      assigned: async (gained) => await this.#gain(await ready, gained),
      lost: (partitions) => {
        for (const id of partitions) this.#lose(id)
      },
      records: (id, records) => this.#partitions.get(id)?.receive(records),
      misplaced: (id, problem) => this.#partitions.get(id)?.misplaced(problem),
    }
  }

  async #gain(context: GroupContext, gained: GainedPartition[]): Promise<Map<number, number>> {
    const gain = Symbol('gain')
    const gainedAt = performance.now()
    for (const { partition } of gained) this.#gains.set(partition, gain)
    const handedOver = await this.#askPositions(gained, gain)
    const starts = new Map<number, number>()
    for (const one of gained) {
      if (this.#gains.get(one.partition) !== gain || this.#closing.signal.aborted) continue
      const readFrom = this.#start(context, one, handedOver.get(one.partition), gainedAt)
      if (readFrom !== null) starts.set(one.partition, readFrom)
    }
    return starts
  }

  /** The first offset to read, or null when the partition must not start. */
  #start(
    context: GroupContext,
    gained: GainedPartition,
    handedOver: number | undefined,
    gainedAt: number,
  ): number | null {
    const id = gained.partition
    const start = decideStart(gained, handedOver, this.#options.topic.cleanup, Date.now())
    if (start.kind === 'stop') {
      this.#refused.set(id, start.why)
      this.#log.error({ partition: id, why: start.why }, 'partition stopped: it needs an operator')
      return null
    }
    if (start.unknownFormat) {
      this.#log.warn(
        { partition: id, position: start.position },
        'commit metadata has an unknown format: left aside',
      )
    }
    // Whoever takes over commits before its first call. Calls of our own are waited for below, by themselves.
    if (start.saved.owner === this.#token) start.saved.released = true
    const awaited = gained.former === 'unknown' && !start.saved.released
    const waitMs = awaited ? Math.max(0, this.#options.callTimeoutMs - (performance.now() - gainedAt)) : 0
    const formerDone = Promise.all([
      this.#leaving.get(id),
      waitMs > 0 ? sleep(waitMs, this.#closing.signal) : null,
    ])
    this.#partitions.set(id, new Partition({ group: context, id, start, end: gained.end, formerDone }))
    return start.readFrom
  }

  /** Positions that the worker keeps itself; asked until it answers. */
  async #askPositions(gained: GainedPartition[], gain: symbol): Promise<Map<number, number>> {
    const { onAssigned, backoff } = this.#options
    for (let n = 0; onAssigned && !this.#closing.signal.aborted; n++) {
      const wanted = gained.filter(({ partition }) => this.#gains.get(partition) === gain)
      if (wanted.length === 0) break
      const asked = wanted.map(({ partition, committed }) => ({
        partition,
        committed: committed?.offset ?? null,
      }))
      try {
        return (await onAssigned.call(this.#options, asked)) ?? new Map()
      } catch (error) {
        this.#log.warn({ err: describeError(error) }, 'onAssigned failed; it is asked again')
      }
      await sleep(backoffMs(n, { ...backoff, maxMs: persistWaitMsMax }), this.#closing.signal)
    }
    return new Map()
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
    for (const partition of this.#partitions.values()) partition.wake()
  }

  #tick(): void {
    const context = this.#context!
    context.calls.sweep()
    const nowMs = Date.now()
    for (const partition of this.#partitions.values()) {
      partition.tick(nowMs)
      // The member is heard again after a silence, or a trial was never answered: nothing else tells of it.
      partition.wake()
    }
  }

  async #read(): Promise<PartitionReading[]> {
    const now = performance.now()
    if (now - this.#readings.at > 1_000 || this.#readings.at === 0) {
      const asked = this.#dependencies.eventLog.offsets(this.#topicName)
      const late = () => new Error('no answer in time')
      const ranges = await withTimeout(asked, 1_000, late).catch(() => null)
      const ends = ranges ? new Map(ranges.map((range) => [range.partition, range.end])) : this.#readings.ends
      this.#readings = { at: now, ends }
    }
    return [...this.#partitions.values()].map((partition) => {
      const end = this.#readings.ends.get(partition.id)
      const lag = end === undefined ? null : Math.max(0, end - partition.committed)
      return {
        partition: partition.id,
        lag,
        committed: partition.committed,
        waiting: end === undefined ? null : (partition.runner.waiting?.(end) ?? lag),
        inFlight: partition.runner.inFlight(),
        window: partition.runner.window(),
        stopped: partition.stopped !== null,
      }
    })
  }
}
