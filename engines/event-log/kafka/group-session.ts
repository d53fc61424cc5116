/**
 * Keeps one membership in a consumer group alive: joins, sends heartbeats, joins again when the group changes, commits
 * under a given generation, and leaves. Classic group protocol; what a member owns and reads is not known here.
 *
 * Joining has a connection of its own: a broker answers nothing else on a connection while a join waits for the other
 * members. Heartbeats have one too, so that a slow commit does not end the session.
 */

import { type Connection, heartbeatV4, joinGroupV9, leaveGroupV5, syncGroupV5 } from '@platformatic/kafka'
import type { Logger } from 'pino'
import { backoffMs, onBeat, sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Claim } from '../membership.ts'
import type { CommittedPosition } from '../port.ts'
import { refusalOf, responseOf } from './calls.ts'
import { type Cluster, type Connections, isCoordinatorAway } from './cluster.ts'
import { fetchPositions } from './group-positions.ts'
import { assignerName, commitPositions, decodeAssignment, encodeAssignments, encodeClaim } from './groups.ts'

export interface SessionOptions {
  group: string
  topic: string
}

/** What the coordinator has confirmed. */
export interface Joined {
  generation: number
  memberId: string
  partitions: number[]
  /** A partition that moves has no owner in this generation: the group assigns once more. */
  again: boolean
}

interface SessionListener {
  /** Partitions owned now, for the next assignment. */
  claim(): Omit<Claim, 'memberId'>
  /** The coordinator has answered with an assignment. Resolves when what it takes away is handed over. */
  assigned(joined: Joined): Promise<void>
  /** Not a member any more: all that was owned is lost. It joins as a new one. */
  ended(): void
}

const protocolType = 'consumer'
const sessionTimeoutMs = deadlines.session.timeoutMs
const rebalanceTimeoutMs = deadlines.session.rebalanceMs
const heartbeatPauseMs = deadlines.session.heartbeatMs
const heartbeatTimeoutMs = deadlines.engine.logHeartbeatMs
/**
 * The coordinator may hold a join or a sync back for as long as the rebalance lasts. One that got no answer in this time
 * is repeated under the same member id on another connection, and takes the place of the first.
 */
const joinTimeoutMs = deadlines.engine.logRequestMs
const callTimeoutMs = deadlines.engine.logRequestMs
const leaveTimeoutMs = deadlines.engine.logLeaveMs
const retryPause = { baseMs: 100, maxMs: 1_000 }
/** Others may own the partitions by now. */
const notMember: ReadonlySet<string> = new Set(['UNKNOWN_MEMBER_ID', 'FENCED_INSTANCE_ID'])

export class GroupSession implements Closeable {
  readonly #cluster: Cluster
  readonly #options: SessionOptions
  readonly #listener: SessionListener
  readonly #log: Logger
  readonly #heartbeats: Connections
  readonly #calls: Connections
  readonly #stop = new AbortController()
  #memberId = ''
  #current: Joined | undefined
  #lastSign = Number.NEGATIVE_INFINITY
  /** How many partitions there were at the last assignment that this member made as the group's leader. */
  #assignedTotal: number | undefined
  #grown = false
  /** The first request of a new member, which is answered with its id. */
  #introduction: Promise<void> = Promise.resolve()
  #closing: Promise<void> | undefined

  constructor(cluster: Cluster, options: SessionOptions, listener: SessionListener, log: Logger) {
    this.#cluster = cluster
    this.#options = options
    this.#listener = listener
    this.#log = log
    this.#heartbeats = cluster.connections(heartbeatTimeoutMs)
    this.#calls = cluster.connections(callTimeoutMs)
    void this.#live()
  }

  /** True while a heartbeat, sent less than the session's time ago, was accepted. */
  alive(): boolean {
    const age = performance.now() - this.#lastSign
    return this.#current !== undefined && age < sessionTimeoutMs
  }

  async committed(partitions: number[]): Promise<CommittedPosition[]> {
    const asked = [{ ...this.#options, partitions }]
    const [found] = await this.#ask(this.#calls, (to) => fetchPositions(to, asked))
    return found!
  }

  /** Under this generation and no later one; rejects when the coordinator refuses, or does not answer. */
  commit(joined: Joined, positions: CommittedPosition[]): Promise<void> {
    return this.#ask(this.#calls, (to) => commitPositions(to, this.#options, joined, positions))
  }

  /** Leaves the group. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #ask<T>(connections: Connections, call: (to: Connection) => Promise<T>): Promise<T> {
    try {
      return await this.#cluster.atCoordinator(this.#options.group, connections, call)
    } catch (error) {
      if (notMember.has(refusalOf(error) ?? '')) {
        this.#memberId = ''
        this.#end()
      }
      throw error
    }
  }

  #end(): void {
    if (!this.#current || this.#stop.signal.aborted) return
    this.#current = undefined
    this.#listener.ended()
  }

  async #live(): Promise<void> {
    const { signal } = this.#stop
    for (let failures = 0; !signal.aborted; ) {
      try {
        const again = await this.#join()
        failures = 0
        if (!again) await this.#stay()
      } catch (error) {
        if (signal.aborted) return
        const level = failures === 0 ? 'debug' : 'info'
        const details = { group: this.#options.group, error: describeError(error) }
        this.#log[level](details, 'joining the group: trying again')
        await sleep(backoffMs(failures++, retryPause), signal)
      }
    }
  }

  /** Resolves with whether the group joins once more at once. */
  async #join(): Promise<boolean> {
    const { signal } = this.#stop
    const connections = this.#cluster.connections(joinTimeoutMs)
    const cut = () => void connections.close()
    try {
      if (this.#memberId === '') {
        this.#introduction = this.#introduce(connections)
        await this.#introduction
      }
      signal.addEventListener('abort', cut)
      signal.throwIfAborted()
      const { generationId, leader, members, protocolName } = await this.#requestJoin(connections)
      const isLeader = leader === this.#memberId
      this.#grown = false
      if (!isLeader) this.#assignedTotal = undefined
      const assignments = isLeader ? await this.#assign(members ?? []) : []
      const sentAt = performance.now()
      const synced = await this.#ask(connections, (to) =>
        syncGroupV5.api.async(
          to,
          this.#options.group,
          generationId,
          this.#memberId,
          null,
          protocolType,
          protocolName,
          assignments,
        ),
      )
      signal.throwIfAborted()
      return await this.#joined(generationId, sentAt, synced.assignment)
    } finally {
      signal.removeEventListener('abort', cut)
      void connections.close()
    }
  }

  async #joined(generation: number, sentAt: number, assignment: Buffer): Promise<boolean> {
    const { partitions, again } = decodeAssignment(this.#options.topic, assignment)
    this.#lastSign = sentAt
    this.#current = { generation, memberId: this.#memberId, partitions, again }
    await this.#listener.assigned(this.#current)
    return again
  }

  async #introduce(connections: Connections): Promise<void> {
    try {
      await this.#requestJoin(connections)
    } catch (error) {
      if (refusalOf(error) !== 'MEMBER_ID_REQUIRED') throw error
      this.#memberId = responseOf<joinGroupV9.JoinGroupResponse>(error).memberId ?? ''
    }
  }

  #requestJoin(connections: Connections): Promise<joinGroupV9.JoinGroupResponse> {
    const { group, topic } = this.#options
    const protocols = [{ name: assignerName, metadata: encodeClaim(topic, this.#listener.claim()) }]
    return this.#ask(connections, (to) =>
      joinGroupV9.api.async(
        to,
        group,
        sessionTimeoutMs,
        rebalanceTimeoutMs,
        this.#memberId,
        null,
        protocolType,
        protocols,
        null,
      ),
    )
  }

  async #assign(members: NonNullable<joinGroupV9.JoinGroupResponse['members']>) {
    const { topic } = this.#options
    const partitions = ((await this.#cluster.topics.now(topic)) ?? []).map(({ partition }) => partition)
    const { assignments, total } = encodeAssignments(topic, members, partitions)
    this.#assignedTotal = total
    return assignments
  }

  /** The leader's part: the group shares out again when the topic has got more partitions. */
  async #lookForGrowth(): Promise<void> {
    if (this.#assignedTotal === undefined) return
    const leaders = await this.#cluster.topics.get(this.#options.topic).catch(() => null)
    const before = this.#assignedTotal
    if (leaders && before !== undefined && leaders.length > before) this.#grown = true
  }

  /** Sends heartbeats until it is time to join again. */
  async #stay(): Promise<void> {
    const { group } = this.#options
    for (let pauseMs = heartbeatPauseMs; ; ) {
      await sleep(onBeat(pauseMs), this.#stop.signal)
      void this.#lookForGrowth()
      if (!this.#current || this.#grown || this.#stop.signal.aborted) return
      const { generation, memberId } = this.#current
      const sentAt = performance.now()
      try {
        await this.#ask(this.#heartbeats, (to) =>
          heartbeatV4.api.async(to, group, generation, memberId, null),
        )
        this.#lastSign = sentAt
        pauseMs = heartbeatPauseMs
      } catch (error) {
        const refusal = refusalOf(error)
        if (refusal === 'ILLEGAL_GENERATION') this.#end()
        if (refusal === 'REBALANCE_IN_PROGRESS') this.#lastSign = sentAt
        if (!isCoordinatorAway(error)) return
        this.#log.debug({ group, error: describeError(error) }, 'a heartbeat got no answer')
        pauseMs = retryPause.baseMs
      }
    }
  }

  async #leave(): Promise<void> {
    await this.#introduction.catch(() => {})
    if (this.#memberId === '') return
    const member = { memberId: this.#memberId, groupInstanceId: null, reason: null }
    await this.#ask(this.#calls, (to) => leaveGroupV5.api.async(to, this.#options.group, [member]))
  }

  async #close(): Promise<void> {
    this.#stop.abort()
    this.#current = undefined
    try {
      await withTimeout(this.#leave(), leaveTimeoutMs, () => new Error('leaving takes too long'))
    } catch (error) {
      const details = { group: this.#options.group, error: describeError(error) }
      this.#log.info(details, 'consumer.not-left')
    }
    await Promise.all([this.#heartbeats.close(), this.#calls.close()])
  }
}
