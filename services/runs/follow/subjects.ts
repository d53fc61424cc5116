/** What can be followed: the tree of a run, a run alone, a dispatch. */

import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { readDispatch } from '../state/dispatches.ts'
import { type Look, lookAtDispatches, lookAtRuns, lookAtTrees } from '../state/looks.ts'
import { readDispatchEvents, readEvents, readRun } from '../state/read.ts'
import type { Dispatch, Run, StoredEvent } from '../state/types.ts'
import type { FeedKey } from './feed.ts'
import type { LookKey } from './looks.ts'

/** `T` is what it is in the end. */
export interface Subject<T> {
  feed: FeedKey
  look: LookKey
  /** The number of a record's event, as this subject counts. */
  seqOf(record: RunEventRecord): number | null
  /** The status that a record gives it. */
  statusIn(record: RunEventRecord): string | null
  /** Whether it is over with this record. */
  endsWith(record: RunEventRecord): boolean
  /** Whether the events of this run are among those that are shown. */
  shows(runId: string): boolean
  /** All events behind `after` in order, also those that are not shown. */
  eventsAfter(after: number, limit: number): Promise<StoredEvent[]>
  /** Whether an event with this number, or a greater one, is among those that are shown. */
  hasFrom(seq: number): Promise<boolean>
  lookNow(): Promise<Look>
  /** Once it is over. */
  readEnded(): Promise<{ value: T; lastEventId: number }>
}

/** The events of a run and of all that joined it. */
export function treeOf(relational: Relational, rootRunId: string): Subject<Run> {
  return {
    ...ofTree(relational, rootRunId, rootRunId),
    look: { tree: rootRunId },
    endsWith: (record) => record.tree_ended,
    shows: () => true,
    hasFrom: async (seq) =>
      (await readEvents(relational, { rootRunId, after: seq - 1, limit: 1 })).length > 0,
    lookNow: async () => (await lookAtTrees(relational, [rootRunId])).get(rootRunId)!,
    readEnded: () => readNow(relational, rootRunId),
  }
}

/** The events of one run of a tree; their numbers are those of the tree. */
export function runAlone(relational: Relational, runId: string, rootRunId: string): Subject<Run> {
  return {
    ...ofTree(relational, runId, rootRunId),
    look: { run: runId },
    endsWith: ({ run_id: id, status }) => id === runId && isTerminal(status),
    shows: (id) => id === runId,
    hasFrom: async (seq) =>
      (await readEvents(relational, { rootRunId, runId, after: seq - 1, limit: 1 })).length > 0,
    lookNow: async () => (await lookAtRuns(relational, [runId])).get(runId)!,
    readEnded: () => readNow(relational, runId),
  }
}

/** The events of all runs of a dispatch, of those that joined them, and of the synthesis. */
export function dispatchOf(relational: Relational, goalId: number): Subject<Dispatch> {
  const lookNow = async () => (await lookAtDispatches(relational, [goalId])).get(goalId)!
  return {
    feed: { goalId },
    look: { dispatch: goalId },
    seqOf: (record) => record.goal_seq,
    statusIn: (record) => record.goal_status,
    endsWith: ({ goal_status: status }) => status !== null && status !== 'running',
    shows: () => true,
    eventsAfter: (after, limit) => readDispatchEvents(relational, { goalId, after, limit }),
    hasFrom: async (seq) =>
      (await readDispatchEvents(relational, { goalId, after: seq - 1, limit: 1 })).length > 0,
    lookNow,
    async readEnded() {
      const { lastEventId } = await lookNow()
      const dispatch = await readDispatch(relational, goalId)
      if (!dispatch) throw new AppError('dispatch_not_found', 'The dispatch is not kept any more.')
      return { value: dispatch, lastEventId }
    },
  }
}

function ofTree(relational: Relational, runId: string, rootRunId: string) {
  return {
    feed: { rootRunId },
    seqOf: (record: RunEventRecord) => record.seq,
    statusIn: (record: RunEventRecord) => (record.run_id === runId ? record.status : null),
    eventsAfter: (after: number, limit: number) => readEvents(relational, { rootRunId, after, limit }),
  }
}

async function readNow(relational: Relational, runId: string): Promise<{ value: Run; lastEventId: number }> {
  const run = await readRun(relational, runId)
  if (!run) throw new AppError('run_not_found', 'The run is not kept any more.')
  return { value: run, lastEventId: run.lastEventId }
}

function isTerminal(status: string | null): boolean {
  return status === 'completed' || status === 'failed' || status === 'canceled'
}
