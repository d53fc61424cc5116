/**
 * Whether anybody asks the relational mirror: a row of the leases that all gateways share says until when it is kept up to
 * date. Past that its writers sleep. The row's epoch rises with each question after a sleep, so a gateway knows that the mirror
 * may lack newer points.
 */

import type { Log } from '#engines/event-log/port.ts'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { noticeOn } from '#runtime/notices.ts'
import type { Position, Publisher } from '#runtime/publish/messages.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { operationWaitMs } from '../read/operations/operations.ts'
import type { IndexProgress } from '../read/operations/progress.ts'
import { type SleepLimits, sleepLimits } from './settings.ts'

const lease = 'mirror'
const until = `coalesce(clock_timestamp() + make_interval(secs => $2::float8 / 1000), 'infinity')`
const epochNow = `held.epoch + case when held.expires_at > clock_timestamp() then 0 else 1 end`

/** A writer has started: the mirror is kept up to date for `awakeMs` from now on, null: for ever. */
export async function beginUse(executor: SqlExecutor, awakeMs: number | null): Promise<void> {
  await executor.query(
    `insert into platform.leases as held (name, holder, expires_at) values ($1, 'searches', ${until})
     on conflict (name) do update set epoch = ${epochNow}, expires_at = ${until}`,
    [lease, awakeMs],
  )
}

/** Somebody asks. Resolves with the epoch; undefined where no writer has ever said that it may sleep. */
async function noteUse(executor: SqlExecutor, awakeMs: number | null): Promise<number | undefined> {
  const { rows } = await executor.query<{ epoch: number }>(
    `update platform.leases as held set epoch = ${epochNow}, expires_at = greatest(expires_at, ${until})
     where name = $1 returning epoch, ${noticeOn('flotilla_mirror')}`,
    [lease, awakeMs],
  )
  return rows[0]?.epoch
}

/** True while nobody asks. */
export async function mirrorMaySleep(executor: SqlExecutor): Promise<boolean> {
  const { rows } = await executor.query<{ over: boolean }>(
    'select expires_at <= clock_timestamp() as over from platform.leases where name = $1',
    [lease],
  )
  return rows[0]?.over ?? false
}

interface MirrorUseParts {
  relational: SqlExecutor
  eventLog: Pick<Log, 'offsets'>
  publisher: Pick<Publisher, 'locationOf'>
  mirrored: Pick<IndexProgress, 'appliedThrough' | 'reached'>
  off: boolean
  awakeMs: number | null
  limits?: SleepLimits
  waitMs?: number
}

export type MirrorUse = ReturnType<typeof createMirrorUse>

/** What a gateway does about the mirror before it is searched. */
export function createMirrorUse(parts: MirrorUseParts) {
  const { relational, mirrored, awakeMs, limits = sleepLimits, waitMs = operationWaitMs } = parts
  let noted: { untilMs: number; epoch: Promise<number | undefined> } | undefined
  /** In this epoch the mirror has caught up with its first question. */
  let caughtUp: number | undefined
  /** The first question of an epoch, and the end of the log then. */
  let first: { epoch: number; ends: Position[] } | undefined

  /** Postgres is asked at most once in `noteEveryMs`: so long it is certain that the mirror does not sleep. */
  function note(): Promise<number | undefined> {
    if (noted && performance.now() < noted.untilMs) return noted.epoch
    const one = { untilMs: performance.now() + limits.noteEveryMs, epoch: noteUse(relational, awakeMs) }
    noted = one
    one.epoch.catch(() => {
      if (noted === one) noted = undefined
    })
    return one.epoch
  }
  async function endsOfLog(): Promise<Position[]> {
    const ranges = await parts.eventLog.offsets(parts.publisher.locationOf(vectorsCommands).physicalName)
    return ranges.flatMap(({ partition, start, end }) =>
      end > start ? [{ partition, offset: end - 1 }] : [],
    )
  }
  const isMirrored = ({ partition, offset }: Position) => offset <= mirrored.appliedThrough(partition)

  return {
    /** Throws AppError `mirror_off`. */
    demandOn(): void {
      if (!parts.off) return
      const message =
        'This platform keeps no relational mirror (MIRROR=off): search with /v1/vectors/search and a filter, or have an operator set MIRROR=on.'
      throw new AppError('mirror_off', message)
    },
    /**
     * Keeps the mirror awake. Resolves at once while it is; where it slept, when it has all that is in the log now. Throws AppError
     * `not_yet_applied` when that takes more than ten seconds, `log_unavailable`, `relational_engine_unavailable`.
     */
    async awake(): Promise<void> {
      const epoch = await note()
      if (epoch === undefined || epoch === caughtUp) return
      if (first?.epoch === epoch && first.ends.every(isMirrored)) {
        caughtUp = epoch
        return
      }
      const ends = await endsOfLog()
      if (first?.epoch !== epoch) first = { epoch, ends }
      if (await mirrored.reached(ends, waitMs)) {
        caughtUp = epoch
        return
      }
      const message =
        'The relational mirror slept, because nobody asked it, and is catching up: try again in a moment.'
      throw new AppError('not_yet_applied', message, { retryAfter: 1 })
    },
  }
}
