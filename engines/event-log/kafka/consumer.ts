/** A member of a consumer group as the port describes it: a session in the group, and a reader of what it owns. */

import { backoffMs, sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { endWork } from '../hand-over.ts'
import type { CommitResult, ConsumerListener, GroupConsumer } from '../port.ts'
import { gatherCommits } from './commits.ts'
import { refusalOf } from './faults.ts'
import { GroupSession, type SessionOptions } from './group-session.ts'
import { createOwnedPartitions, type Joined, type OwnedPartition } from './owned-partitions.ts'
import { openReader, type ReaderParts } from './reader.ts'

interface MemberOptions extends SessionOptions {
  fetchBytesMax: number
}

const metadataBytesMax = 4_096
const commitTimeoutMs = deadlines.engine.logCommitMs
const retryPause = { baseMs: 100, maxMs: 2_000 }

export function openConsumer(
  options: MemberOptions,
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
      log.warn({ group, topic, error: describeError(error) }, 'partitions go to another member as they are')
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
        log.warn({ group, topic, error: describeError(error) }, 'taking over partitions: trying again')
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
