/** Runs and dispatches as callers see them, and the frame that ends every stream. */

import type { ErrorCode } from '#lib/error-codes.ts'
import { AppError } from '#lib/errors.ts'
import { type Dispatch, type Run, runStatuses } from '../state/types.ts'

export function viewOfRun(run: Run) {
  return {
    runId: run.runId,
    appName: run.agent,
    userId: run.userId,
    sessionId: run.sessionId,
    status: run.status,
    trigger: run.trigger,
    parentRunId: run.parentRunId,
    rootRunId: run.rootRunId,
    goalId: run.goalId,
    depth: run.depth,
    attempt: run.attempt,
    error: run.error,
    joined: run.joined,
    skipped: run.skipped,
    createdAt: run.createdAt.toISOString(),
    startedAt: run.startedAt?.toISOString() ?? null,
    endedAt: run.endedAt?.toISOString() ?? null,
    cancelRequestedAt: run.cancelRequestedAt?.toISOString() ?? null,
    lastEventId: run.lastEventId,
  }
}

export function viewOfDispatch(dispatch: Dispatch) {
  const { goalId, userId, sessionId, status, deadline, result, runs } = dispatch
  const counted = runStatuses.map((one) => [one, runs.filter((run) => run.status === one).length])
  return {
    goalId,
    userId,
    sessionId,
    status,
    counts: { total: runs.length, ...Object.fromEntries(counted) },
    deadline: deadline.toISOString(),
    runs: runs.map(({ runId, agent, status: ofRun, error }) => ({ runId, agent, status: ofRun, error })),
    result,
  }
}

/** An event of ADK without content: its clients show nothing, ours know the end from a break. */
export function endOfRun(run: Run) {
  const failure = failureOf(run)
  return {
    ...frame(run.runId, run.endedAt),
    customMetadata: { run: viewOfRun(run) },
    ...(failure ? { errorCode: failure.code, errorMessage: failure.message } : {}),
  }
}

/** As `endOfRun`. */
export function endOfDispatch(dispatch: Dispatch) {
  const id = `dispatch_${dispatch.goalId}`
  return { ...frame(id, dispatch.endedAt), customMetadata: { dispatch: viewOfDispatch(dispatch) } }
}

function frame(invocationId: string, endedAt: Date | null) {
  return {
    author: 'gateway',
    invocationId,
    id: `end_${invocationId}`,
    timestamp: (endedAt?.getTime() ?? Date.now()) / 1000,
    turnComplete: true,
    actions: {},
  }
}

/** The problem that a run which has not completed is answered with; undefined for one that has, or has not ended. */
export function failureOf(run: Run): AppError | undefined {
  if (run.status === 'canceled') {
    return problem(run, 'run_canceled', 'The run was canceled.', true)
  }
  if (run.status !== 'failed') return undefined
  const { code, message, retryable } = run.error ?? {
    code: 'agent_error',
    message: 'The run failed.',
    retryable: false,
  }
  return problem(run, code, message, retryable)
}

function problem(run: Run, code: ErrorCode, message: string, retryable: boolean): AppError {
  const members = { runId: run.runId, sessionId: run.sessionId, retryable }
  return new AppError(code, message, { members, ...(code === 'node_unavailable' ? { retryAfter: 5 } : {}) })
}
