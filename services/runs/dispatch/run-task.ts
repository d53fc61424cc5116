/** Works on one claimed run: calls its node, takes the events, and ends the run or gives it back. */

import { describeError } from '#lib/errors.ts'
import { NodeFault, type RunNode } from '../nodes/types.ts'
import { type GiveBack, giveBackRun } from '../state/claims.ts'
import { attemptsMax, nodeLost, nodeUnavailable, runTimeout } from '../state/sweeps.ts'
import type { RunError } from '../state/types.ts'
import { nodeMessageOf } from './node-message.ts'
import { type RunHost, RunStopped } from './parts.ts'
import { persist, type RunControl } from './run-control.ts'
import { agentError, RunEvents, TooManyEvents } from './run-events.ts'

type Outcome =
  | {
      kind: 'ended'
      status: 'completed' | 'failed' | 'canceled'
      error?: RunError
      reportedBy: 'node' | 'gateway'
    }
  /** Back into the queue; where that is not possible any more, the node counts as lost. */
  | { kind: 'again'; why: GiveBack }
  /** Another dispatcher has it, or somebody ended it. */
  | { kind: 'gone' }

/** Never throws. */
export async function workOn(host: RunHost, control: RunControl, node: RunNode): Promise<void> {
  const { run } = control
  const events = new RunEvents(host, control)
  const outcome = await play(host, control, node, events)
  control.close()
  try {
    await conclude(host, control, events, outcome)
  } catch (error) {
    // The sweep of some dispatcher finds it when the lease is over.
    host.log.warn({ run: run.runId, reason: describeError(error) }, 'runs.not-ended')
  }
}

async function play(host: RunHost, control: RunControl, node: RunNode, events: RunEvents): Promise<Outcome> {
  const { run, signal } = control
  try {
    const given = await persist(control, () => nodeMessageOf(host, run))
    if (run.cancelRequestedAt || given === null)
      return { kind: 'ended', status: 'canceled', reportedBy: 'gateway' }
    host.news.started(run)
    await events.takeMessage()
    const call = host.callNode({
      node,
      runId: run.runId,
      userId: run.userId,
      sessionId: run.sessionId,
      newMessage: given.message,
      streaming: run.streaming,
      ...(run.stateDelta ? { stateDelta: run.stateDelta } : {}),
      ...(given.customMetadata ? { customMetadata: given.customMetadata } : {}),
      signal,
    })
    for await (const event of call) {
      signal.throwIfAborted()
      await events.take(event)
    }
    signal.throwIfAborted()
    return events.error
      ? { kind: 'ended', status: 'failed', error: events.error, reportedBy: 'node' }
      : { kind: 'ended', status: 'completed', reportedBy: 'node' }
  } catch (error) {
    return outcomeOf(error, host, control)
  }
}

function outcomeOf(error: unknown, host: RunHost, { run }: RunControl): Outcome {
  const failed = (fault: RunError, reportedBy: 'node' | 'gateway' = 'gateway'): Outcome => ({
    kind: 'ended',
    status: 'failed',
    error: fault,
    reportedBy,
  })
  if (error instanceof RunStopped) {
    switch (error.reason) {
      case 'canceled':
        return { kind: 'ended', status: 'canceled', reportedBy: 'gateway' }
      case 'timeout':
        return failed(runTimeout)
      case 'stopping':
        return { kind: 'again', why: 'stopped' }
      case 'lease_lost':
        return { kind: 'gone' }
    }
  }
  if (error instanceof TooManyEvents) return failed(tooManyEvents, 'node')
  if (error instanceof NodeFault) {
    if (error.kind === 'agent_error') return failed(agentError(error.message, host.nodes().secrets), 'node')
    return { kind: 'again', why: error.kind }
  }
  host.log.error({ run: run.runId, reason: describeError(error) }, 'runs.failed')
  return { kind: 'again', why: 'lost' }
}

const tooManyEvents: RunError = {
  code: 'too_many_events',
  message: 'The run showed more than 10,000 events or 32 MiB.',
  retryable: false,
}

async function conclude(
  host: RunHost,
  control: RunControl,
  events: RunEvents,
  outcome: Outcome,
): Promise<void> {
  const { run } = control
  if (outcome.kind === 'gone') return
  if (outcome.kind === 'again') {
    if (await givenBack(host, control, outcome.why)) return host.wake(run.slug)
    return conclude(host, control, events, await failedOrCanceled(host, control, outcome.why))
  }
  const ended = await persist(control, () =>
    host.endRun({
      runId: run.runId,
      epoch: run.epoch,
      status: outcome.status,
      error: outcome.error ?? null,
      summary: events.summary,
      reportedBy: outcome.reportedBy,
    }),
  )
  if (ended) await host.ended([ended])
}

async function givenBack(host: RunHost, control: RunControl, why: GiveBack): Promise<boolean> {
  const { runId, epoch, attempt } = control.run
  if (why === 'lost' && attempt >= attemptsMax) return false
  const { retryMs, startMs } = host.times
  const waitMs = why === 'unavailable' ? retryMs : 0
  return persist(control, () => giveBackRun(host.relational, { runId, epoch, why, waitMs, startMs }))
}

async function failedOrCanceled(host: RunHost, control: RunControl, why: GiveBack): Promise<Outcome> {
  const { rows } = await persist(control, () =>
    host.relational.query<{ canceled: boolean }>(
      'select cancel_requested_at is not null as canceled from platform.runs where run_id = $1',
      [control.run.runId],
    ),
  )
  if (rows[0]?.canceled) return { kind: 'ended', status: 'canceled', reportedBy: 'gateway' }
  const error = why === 'unavailable' ? nodeUnavailable : nodeLost
  return { kind: 'ended', status: 'failed', error, reportedBy: 'gateway' }
}
