/** Follows a run, or a dispatch, to its end: durable events from the rows, pieces of text and changes from the log. */

import { Type } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { createWakeup } from '#lib/wakeup.ts'
import { followTopic } from '#runtime/follow/follow-topic.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { viewOfDispatch, viewOfRun } from '#services/runs/gateway/views.ts'
import { readDispatchEvents } from '#services/runs/state/dispatches.ts'
import { readEvents, readRun, treeStatus } from '#services/runs/state/read.ts'
import type { RunEvent, StoredEvent } from '#services/runs/state/types.ts'
import { runsEvents } from '#topics/catalog.ts'
import { defineOperation, type OperationContext } from './operation.ts'
import { type DispatchView, dispatchOf, goalIdOf, type RunView } from './runs.ts'

/** `partial`: a piece of a text that comes as a whole later. */
export type FollowedItem =
  | { kind: 'event'; event: RunEvent }
  | { kind: 'partial'; event: RunEvent }
  | { kind: 'status'; agent: string; status: string; error: string | null }

export type Followed = { events: StoredEvent[] } & ({ run: RunView } | { dispatch: DispatchView })

const pageMax = 200
/** What the log does not say is looked up this often. */
const lookMs = 1_000
/** What waits for a slow reader; more pieces are left out. */
const piecesMax = 1_000

export const followRunOperation = defineOperation({
  name: 'runs follow',
  needs: [],
  services: ['run-dispatcher', 'outbox-publisher'],
  /** Of a run, or the number of a dispatch. */
  args: Type.Object({
    id: Type.String(),
    /** Whether the result holds the events, too. */
    keep: Type.Boolean(),
  }),
  async run(context: OperationContext<FollowedItem>, { id, keep }): Promise<Followed> {
    return follow(context, await targetOf(context.platform.engines.relational, id), keep)
  },
})

interface Target {
  /** Whether a record of runs.events is about it. */
  isOf(record: { root_run_id: string; goal_id: number | null }): boolean
  /** As the rows number it; null where it is no durable event. */
  seqOf(record: { seq: number | null; goal_seq: number | null }): number | null
  after(seq: number): Promise<StoredEvent[]>
  /** Agents that will not answer, since the last call. */
  changes(): Promise<FollowedItem[]>
  /** Undefined until all has ended. */
  outcome(): Promise<{ run: RunView } | { dispatch: DispatchView } | undefined>
}

async function targetOf(relational: Relational, id: string): Promise<Target> {
  const goalId = goalIdOf(id)
  if (goalId !== undefined) return dispatchTarget(relational, goalId)
  const run = await readRun(relational, id)
  if (!run) throw new AppError('run_not_found', `There is no run ${id.slice(0, 64).toWellFormed()}.`)
  const { rootRunId } = run
  return {
    isOf: ({ root_run_id }) => root_run_id === rootRunId,
    seqOf: ({ seq }) => seq,
    after: (after) => readEvents(relational, { rootRunId, after, limit: pageMax }),
    changes: async () => [],
    async outcome() {
      const { ended } = await treeStatus(relational, rootRunId)
      return ended ? { run: viewOfRun((await readRun(relational, id)) ?? run) } : undefined
    },
  }
}

async function dispatchTarget(relational: Relational, goalId: number): Promise<Target> {
  await dispatchOf(relational, goalId)
  const seen = new Set<string>()
  return {
    isOf: ({ goal_id }) => goal_id === goalId,
    seqOf: ({ goal_seq }) => goal_seq,
    after: (after) => readDispatchEvents(relational, { goalId, after, limit: pageMax }),
    async changes() {
      const { runs } = await dispatchOf(relational, goalId)
      const fallen = runs.filter(
        ({ runId, status }) => (status === 'failed' || status === 'canceled') && !seen.has(runId),
      )
      for (const { runId } of fallen) seen.add(runId)
      return fallen.map(({ agent, status, error }) => ({
        kind: 'status',
        agent,
        status,
        error: error?.message ?? null,
      }))
    },
    async outcome() {
      const dispatch = await dispatchOf(relational, goalId)
      return dispatch.status === 'running' ? undefined : { dispatch: viewOfDispatch(dispatch) }
    },
  }
}

/** Of a text of a run, behind the durable event of this number. */
interface Piece {
  event: RunEvent
  runId: string
  behind: number
}

async function follow(
  { platform, output, signal }: OperationContext<FollowedItem>,
  target: Target,
  keep: boolean,
): Promise<Followed> {
  const events: StoredEvent[] = []
  const wakeup = createWakeup()
  let after = 0
  let waiting: (Piece | 'rows')[] = []
  /** By run: the last durable event that came from the log, and from the rows. */
  const heardTo = new Map<string, number>()
  const givenTo = new Map<string, number>()
  /** From now on. While the log is away the rows alone say what happened. */
  const following = await followTopic({ ...platform, ...platform.engines }, runsEvents, {
    from: 'end',
    onMessage({ value }) {
      if (value !== null && target.isOf(value)) hear(value)
    },
  })
  function hear(record: RunEventRecord): void {
    const { run_id: runId, status } = record
    const event = record.event === null ? null : (JSON.parse(record.event) as RunEvent)
    if (!event?.partial) {
      // From its beginning on, or behind a durable event, no piece of a text is missing.
      const seq = target.seqOf(record) ?? (status === 'running' ? 0 : null)
      if (seq !== null) heardTo.set(runId, seq)
      if (waiting.at(-1) !== 'rows') waiting.push('rows')
    } else if (heardTo.has(runId) && waiting.length < piecesMax) {
      waiting.push({ event, runId, behind: heardTo.get(runId)! })
    }
    wakeup.wake()
  }
  async function giveRows(): Promise<void> {
    for (;;) {
      const page = await target.after(after)
      for (const { event, runId, seq } of page) {
        await output.item({ kind: 'event', event })
        givenTo.set(runId, seq)
      }
      if (keep) events.push(...page)
      after = page.at(-1)?.seq ?? after
      if (page.length === 0) return
    }
  }
  try {
    for (;;) {
      signal.throwIfAborted()
      // Asked before the rows are read: none comes behind the end.
      const outcome = await target.outcome()
      const heard = waiting
      waiting = []
      for (const item of heard) {
        if (item === 'rows') await giveRows()
        // The rows may be ahead of the log: then the whole text was given already.
        else if ((givenTo.get(item.runId) ?? 0) <= item.behind) {
          await output.item({ kind: 'partial', event: item.event })
        }
      }
      for (const change of await target.changes()) await output.item(change)
      await giveRows()
      if (outcome) return { ...outcome, events }
      await wakeup.sleep(lookMs, signal)
    }
  } finally {
    await following.close()
  }
}
