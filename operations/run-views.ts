/** Runs and dispatches as operators see them: the fields of the run gateway. */

import type { Dispatch, Run } from '#services/runs/state/types.ts'

export type RunView = ReturnType<typeof viewOfRun>
export type DispatchView = ReturnType<typeof viewOfDispatch>

export function viewOfRun(run: Run) {
  const { runId, agent: appName, userId, sessionId, status, trigger, parentRunId, rootRunId, goalId } = run
  const { depth, attempt, error, joined, skipped, lastEventId } = run
  return {
    runId,
    appName,
    userId,
    sessionId,
    status,
    trigger,
    parentRunId,
    rootRunId,
    goalId,
    depth,
    attempt,
    error,
    joined,
    skipped,
    createdAt: run.createdAt.toISOString(),
    startedAt: run.startedAt?.toISOString() ?? null,
    endedAt: run.endedAt?.toISOString() ?? null,
    lastEventId,
  }
}

export function viewOfDispatch({ goalId, userId, sessionId, status, deadline, result, runs }: Dispatch) {
  return {
    goalId,
    userId,
    sessionId,
    status,
    deadline: deadline.toISOString(),
    runs: runs.map(({ runId, agent, status: runStatus, error }) => ({
      runId,
      agent,
      status: runStatus,
      error,
    })),
    result,
  }
}
