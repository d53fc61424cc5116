/**
 * A member of a consumer group as the port describes it: a session in the group, what it owns, and a reader of that. Commits
 * that are made at the same moment go as one request, because the coordinator appends once for each.
 */

import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { type Claim, endWork } from '../membership.ts'
import type { CommitResult, CommittedPosition, ConsumerListener, GroupConsumer } from '../port.ts'
import { refusalOf } from './calls.ts'
import { GroupSession, type Joined, type SessionOptions } from './group-session.ts'
import type { Committing } from './groups.ts'
import { openReader, type ReaderParts } from './reader.ts'

const metadataBytesMax = 4_096
const commitTimeoutMs = deadlines.engine.logCommitMs
const retryPause = { baseMs: 100, maxMs: 2_000 }

export function openConsumer(
  options: SessionOptions & { fetchBytesMax: number },
  listener: ConsumerListener,
  parts: ReaderParts,
): GroupConsumer {
  const { group, topic } = options
  const { cluster, ranges, log } = parts
  const owned = createOwnedPartitions()
  const stop = new AbortController()
  const reader = openReader(parts, options, listener)
  const session = new GroupSession(
    cluster,
    options,
    { claim: owned.claim, assigned, ended: () => lose(owned.clear()) },
    log,
  )
  const commitTogether = gatherCommits<Joined>((joined, positions) => session.commit(joined, positions))

  async function assigned(joined: Joined): Promise<void> {
    const { gained, lost, revoked } = owned.take(joined)
    lose(lost)
    for (const { partition } of gained) reader.add(partition)
    if (gained.length > 0) void takeOver(gained)
    if (revoked.length > 0) await handOver(revoked)
  }
  /** The group waits meanwhile: nobody else has these before this member has joined again. */
  async function handOver(partitions: number[]): Promise<void> {
    reader.remove(partitions)
    try {
      await endWork(listener, partitions)
    } catch (error) {
      log.warn({ group, topic, error: describeError(error) }, 'consumer.hand-over-failed')
    }
    lose(owned.release(partitions))
  }
  function lose(partitions: number[]): void {
    if (partitions.length === 0 || stop.signal.aborted) return
    reader.remove(partitions)
    listener.lost(partitions)
  }
  /** Tries until it succeeds or none of the partitions is owned any more. */
  async function takeOver(gained: OwnedPartition[]): Promise<void> {
    for (let failures = 0; !stop.signal.aborted; failures++) {
      const still = gained.filter(owned.holds)
      if (still.length === 0) return
      try {
        return await prepare(still)
      } catch (error) {
        log.warn({ group, topic, error: describeError(error) }, 'consumer.take-over-failing')
        await sleep(backoffMs(failures, retryPause), stop.signal)
      }
    }
  }
  async function prepare(gained: OwnedPartition[]): Promise<void> {
    const numbers = gained.map(({ partition }) => partition)
    const [found, committed] = await Promise.all([ranges.ranges(topic, numbers), session.committed(numbers)])
    const still = gained.filter(owned.holds)
    if (still.length === 0 || stop.signal.aborted) return
    for (const one of still) one.announced = true
    const starts = await listener.assigned(
      still.map(({ partition }) => ({
        ...found.find((range) => range.partition === partition)!,
        committed: committed.find((one) => one.partition === partition) ?? null,
      })),
    )
    const sought = reader.positions()
    for (const one of still) {
      const start = starts.get(one.partition)
      if (start !== undefined && owned.holds(one) && !sought.has(one.partition))
        reader.seek(one.partition, start)
    }
  }
  async function commit(partition: number, offset: number, metadata: string): Promise<CommitResult> {
    if (Buffer.byteLength(metadata) > metadataBytesMax) {
      throw new AppError('validation_failed', `Commit metadata holds at most ${metadataBytesMax} bytes.`)
    }
    // Ownership and generation are those of one assignment: both are read in this tick, and sent as they are.
    const own = owned.get(partition)
    const joined = owned.member()
    if (stop.signal.aborted || !own?.announced || !joined) return 'lost'
    try {
      const committing = commitTogether(joined, { partition, offset, metadata })
      await withTimeout(committing, commitTimeoutMs, () => new Error('no answer in time'))
      return 'committed'
    } catch (error) {
      log.debug({ group, partition, error: refusalOf(error) ?? describeError(error) }, 'commit refused')
      return !stop.signal.aborted && owned.holds(own) ? 'again' : 'lost'
    }
  }
  return {
    assignment: owned.all,
    commit,
    pause: reader.pause,
    resume: reader.resume,
    seek: reader.seek,
    alive: () => session.alive(),
    async close() {
      stop.abort()
      owned.clear()
      await Promise.all([reader.close(), session.close()])
    },
  }
}

/** One ownership: a partition that was lost and gained again is another one. */
interface OwnedPartition {
  readonly partition: number
  /** The listener knows of it: what it commits before is of an earlier ownership. */
  announced: boolean
}

export function createOwnedPartitions() {
  const byNumber = new Map<number, OwnedPartition>()
  let member: Joined | undefined
  return {
    get: (partition: number): OwnedPartition | undefined => byNumber.get(partition),
    /** True while this very ownership lasts. */
    holds: (owned: OwnedPartition): boolean => byNumber.get(owned.partition) === owned,
    all: (): number[] => [...byNumber.keys()],
    member: (): Joined | undefined => member,
    claim: (): Omit<Claim, 'memberId'> => ({
      generation: member?.generation ?? 0,
      partitions: [...byNumber.keys()],
    }),
    /** `revoked` are owned until `release`: nobody else has them before this member has joined again. */
    take(joined: Joined): { gained: OwnedPartition[]; lost: number[]; revoked: number[] } {
      // A generation in between that this member did not see: others may have owned, and worked on, its partitions.
      const consecutive = member !== undefined && [0, 1].includes(joined.generation - member.generation)
      const kept = consecutive ? joined.partitions.filter((partition) => byNumber.has(partition)) : []
      const taken = [...byNumber.keys()].filter((partition) => !kept.includes(partition))
      const [lost, revoked] = consecutive && joined.again ? [[], taken] : [taken, []]
      for (const partition of lost) byNumber.delete(partition)
      const gained = joined.partitions
        .filter((partition) => !kept.includes(partition))
        .map((partition) => ({ partition, announced: false }))
      for (const owned of gained) byNumber.set(owned.partition, owned)
      member = joined
      return { gained, lost, revoked }
    },
    /** Forgets these; returns those that were owned. */
    release: (partitions: number[]): number[] => partitions.filter((partition) => byNumber.delete(partition)),
    /** Forgets everything; returns the partitions that were owned. */
    clear(): number[] {
      const lost = [...byNumber.keys()]
      byNumber.clear()
      member = undefined
      return lost
    },
  }
}

interface Gathered<C extends Committing> {
  member: C
  positions: CommittedPosition[]
  sent: Promise<void>
}

/** The result commits one position together with those of this turn; it rejects when any of them is refused. */
export function gatherCommits<C extends Committing>(
  send: (member: C, positions: CommittedPosition[]) => Promise<void>,
): (member: C, position: CommittedPosition) => Promise<void> {
  let open: Gathered<C> | null = null

  function begin(member: C): Gathered<C> {
    const positions: CommittedPosition[] = []
    const sent = new Promise<void>((resolve) => {
      // Behind all timers that end now, too: partitions commit at the same times.
      setImmediate(() => {
        if (open === gathered) open = null
        resolve(send(member, positions))
      })
    })
    const gathered: Gathered<C> = { member, positions, sent }
    return gathered
  }
  return (member, position) => {
    // Another generation never goes with this one, nor a second position of a partition.
    const joins =
      open !== null &&
      open.member.generation === member.generation &&
      open.member.memberId === member.memberId &&
      open.positions.every(({ partition }) => partition !== position.partition)
    if (!open || !joins) open = begin(member)
    open.positions.push(position)
    return open.sent
  }
}
