/**
 * Publishes what happens to runs. The rows are the truth and are written before, so a log that is slow or away costs the
 * followers of a stream some time, and never a run.
 */

import type { Logger } from 'pino'
import { sleep } from '#lib/backoff.ts'
import { budgets } from '#lib/budgets.ts'
import { describeError } from '#lib/errors.ts'
import type { OutgoingMessage, Publisher } from '#runtime/publish/messages.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { runsEvents } from '#topics/catalog.ts'
import type { LocalRuns } from '../state/claims.ts'
import type { EndedRun } from '../state/end.ts'
import type { StoredPosition } from '../state/events.ts'
import type { ClaimedRun, DispatchStatus } from '../state/types.ts'

const waitingMax = 2_000
const waitingBytesMax = budgets.runs.newsBytes
const batchMax = 500
const batchBytesMax = 1024 * 1024
const publishTimeoutMs = 2_000
/**
 * Under load news wait for company, which spares the log work: the longer, the more came together last. One alone is followed at
 * once.
 */
const pauseMsEach = 2
const pauseMsMax = 50
/** Later than this is no news, also where nobody waits for it elsewhere. */
const lateMs = 100

type News = OutgoingMessage<string, RunEventRecord>

export type RunNews = ReturnType<typeof createRunNews>

/**
 * The readers of this process hear of everything at once, whatever becomes of the log. Where one of them waited for it the log
 * may bring it a little later, together with the next ones.
 */
export function createRunNews(
  publisher: Pick<Publisher, 'publish'>,
  log: Logger,
  readers: LocalRuns['readers'] = new Set(),
) {
  let waiting: News[] = []
  let bytes = 0
  let failing = false
  let publishing: Promise<void> | undefined
  let due: NodeJS.Timeout | undefined
  const closing = new AbortController()

  const isFull = (share: number) => waiting.length >= waitingMax * share || bytes >= waitingBytesMax * share

  /** `wanted`: false where nobody waits for it anywhere. */
  function add(slug: string, value: RunEventRecord, wanted = true): void {
    let isHeard = false
    for (const reader of readers) isHeard = reader(value) || isHeard
    const isPiece = value.event !== null && value.seq === null
    if (isFull(isPiece ? 0.5 : 1)) return
    waiting.push({ key: slug, value })
    bytes += value.event?.length ?? 0
    if ((wanted && !isHeard) || waiting.length >= batchMax) publishNow()
    else due ??= setTimeout(publishNow, lateMs)
  }

  function publishNow(): void {
    clearTimeout(due)
    due = undefined
    publishing ??= publishAll()
  }

  function take(): News[] {
    let size = 0
    const count = waiting.findIndex((news, n) => {
      size += news.value?.event?.length ?? 0
      return n > 0 && (n >= batchMax || size > batchBytesMax)
    })
    const batch = count === -1 ? waiting : waiting.slice(0, count)
    waiting = count === -1 ? [] : waiting.slice(count)
    for (const { value } of batch) bytes -= value?.event?.length ?? 0
    return batch
  }

  async function publishAll(): Promise<void> {
    // News added in this turn go along.
    await Promise.resolve()
    while (waiting.length > 0) {
      const batch = take()
      try {
        await publisher.publish(runsEvents, batch, { timeoutMs: publishTimeoutMs })
        failing = false
      } catch (error) {
        if (!failing)
          log.warn({ reason: describeError(error), hint: 'readers find it in the rows' }, 'runs.news-lost')
        failing = true
      }
      if (waiting.length < batchMax) {
        await sleep(Math.min(pauseMsMax, batch.length * pauseMsEach), closing.signal)
      }
    }
    publishing = undefined
  }

  return {
    started: (run: ClaimedRun) =>
      add(run.slug, { ...of(run), status: 'running', last_seq: run.answerSeq ?? null }, false),
    asked: (run: ClaimedRun) => add(run.slug, { ...of(run), status: 'input_required' }),
    /** A piece of a text: dropped earlier than all else where too much waits. */
    partial: (run: ClaimedRun, event: string) => add(run.slug, { ...of(run), event }),
    stored: (run: ClaimedRun, event: string, { seq, goalSeq }: StoredPosition) =>
      add(run.slug, { ...of(run), seq, goal_seq: goalSeq, event }, isWanted(run)),
    ended(run: EndedRun) {
      const { status, treeEnded, lastEventId } = run
      const end = { status, tree_ended: treeEnded, last_seq: lastEventId }
      add(run.slug, { ...of(run), ...end }, isWanted(run))
    },
    dispatchEnded: (goalId: number, status: DispatchStatus) =>
      add('', { ...nothing, goal_id: goalId, goal_status: status }),
    async close() {
      closing.abort()
      publishNow()
      await publishing
    },
  }
}

/** Nobody waits for what AXON says of a report. */
function isWanted({ trigger }: ClaimedRun | EndedRun): boolean {
  return trigger !== 'report'
}

const nothing: RunEventRecord = {
  run_id: '',
  root_run_id: '',
  goal_id: null,
  attempt: 0,
  seq: null,
  goal_seq: null,
  event: null,
  status: null,
  tree_ended: false,
  last_seq: null,
  goal_status: null,
}

function of({ runId, rootRunId, goalId, attempt }: ClaimedRun | EndedRun): RunEventRecord {
  return { ...nothing, run_id: runId, root_run_id: rootRunId, goal_id: goalId, attempt }
}
