/**
 * Lets the writer of the mirror sleep while nobody asks: its groups keep their partitions and read nothing; now and then all
 * pending records are written together.
 */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { createWakeup } from '#lib/backoff.ts'
import type { Closeable } from '#lib/resource.ts'
import type { RunningConsumer } from '#runtime/consume/consumer.ts'
import { hearNotices } from '#runtime/notices.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import type { SleepLimits } from './settings.ts'
import { beginUse, mirrorMaySleep } from './use.ts'

/** A group that may be paused. */
type Group = Pick<RunningConsumer, 'pause' | 'resume' | 'readings'>

export interface Sleep extends Closeable {
  readonly asleep: boolean
  /** A group has joined; call what it gives when the group leaves. */
  joined(group: Group): () => void
  /** While an index is rebuilt, nothing sleeps. */
  rebuilding(isUnderWay: boolean): void
}

/** Between two looks at pending records that are being written. */
const takingLookMs = 200

interface SleepParts {
  relational: Relational
  log: Logger
  awakeMs: number | null
  limits: SleepLimits
}

export function startSleep({ relational, log, awakeMs, limits }: SleepParts): Sleep {
  const groups = new Set<Group>()
  const stop = new AbortController()
  const wakeup = createWakeup()
  let begun = false
  let asleep = false
  let rebuilding = false
  let takenAt = 0
  /** Pending records are being written: for each partition of a group, the end of the log when that began. */
  let taking: Map<Group, Map<number, number>> | undefined

  function setPaused(paused: boolean): void {
    for (const group of groups) paused ? group.pause() : group.resume()
  }
  function fallAsleep(): void {
    asleep = true
    takenAt = performance.now()
    setPaused(true)
    log.info('mirror.asleep')
  }
  function wakeUp(): void {
    asleep = false
    taking = undefined
    setPaused(false)
    log.info('mirror.awake')
  }
  async function readPending() {
    const pending = new Map<Group, Map<number, number>>()
    let records = 0
    for (const group of groups) {
      const ends = new Map<number, number>()
      for (const { partition, committed, lag, stopped } of await group.readings()) {
        if (!lag || stopped) continue
        ends.set(partition, committed + lag)
        records += lag
      }
      pending.set(group, ends)
    }
    return { ends: pending, records }
  }
  /** Also when a group has left meanwhile: its next member goes on. */
  async function isTaken(ends: Map<Group, Map<number, number>>): Promise<boolean> {
    for (const group of groups) {
      const left = (await group.readings()).some(
        ({ partition, committed, stopped }) => !stopped && committed < (ends.get(group)?.get(partition) ?? 0),
      )
      if (left) return false
    }
    return true
  }
  async function look(): Promise<void> {
    if (!begun) await beginUse(relational, awakeMs)
    begun = true
    const rests = !rebuilding && (await mirrorMaySleep(relational))
    if (rests !== asleep) return rests ? fallAsleep() : wakeUp()
    if (!asleep) return
    if (taking) {
      if (!(await isTaken(taking))) return
      taking = undefined
      takenAt = performance.now()
      setPaused(true)
      return
    }
    const { ends, records } = await readPending()
    if (records === 0) return
    if (records < limits.pendingMax && performance.now() - takenAt < limits.takeEveryMs) return
    log.info({ records }, 'mirror.takes')
    taking = ends
    setPaused(false)
  }

  const everyMs = () => (taking ? Math.min(takingLookMs, limits.lookMs) : limits.lookMs)
  const looking = repeatUntil(
    { what: 'sleep of the mirror', everyMs, wakeup, signal: stop.signal, log },
    look,
  )
  const notices = hearNotices({ relational, log }, 'flotilla_mirror', wakeup.wake)
  return {
    get asleep() {
      return asleep
    },
    joined(group) {
      groups.add(group)
      if (asleep && !taking) group.pause()
      return () => groups.delete(group)
    },
    rebuilding(isUnderWay) {
      if (isUnderWay === rebuilding) return
      rebuilding = isUnderWay
      wakeup.wake()
    },
    async close() {
      stop.abort()
      await Promise.all([looking, notices.close()])
    },
  }
}
