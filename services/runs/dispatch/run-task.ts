/** Works on one claimed run: calls its node, takes the events, and ends the run or gives it back. */

import { describeError } from '#lib/errors.ts'
import { NodeFault, type RunNode } from '../nodes/nodes.ts'
import { type GiveBack, giveBackRun } from '../state/claims.ts'
import type { HeldEnd } from '../state/end.ts'
import { askBack } from '../state/questions.ts'
import { attemptsMax, nodeLost, nodeUnavailable, runTimeout } from '../state/sweeps.ts'
import type { Question, RunError, RunEvent } from '../state/types.ts'
import { nodeMessageOf } from './node-message.ts'
import { persist, type RunControl, type RunHost, RunStopped } from './parts.ts'
import { agentError, RunEvents, TooManyEvents } from './run-events.ts'

type Outcome =
  | Pick<HeldEnd, 'status' | 'error' | 'reportedBy'>
  /** Back into the queue; where that is not possible any more, the node counts as lost. */
  | { again: GiveBack }
  /** Waits for an answer. */
  | { asks: Question }
  /** Another dispatcher has it, or somebody ended it. */
  | 'gone'

const canceled: Outcome = { status: 'canceled', error: null, reportedBy: 'gateway' }

function failed(error: RunError, reportedBy: HeldEnd['reportedBy'] = 'gateway'): Outcome {
  return { status: 'failed', error, reportedBy }
}

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
    const call = await beginCall(host, control, node, events)
    if (call === null) return canceled
    for await (const event of call) {
      signal.throwIfAborted()
      await events.take(event)
    }
    signal.throwIfAborted()
    if (events.error) return failed(events.error, 'node')
    // Nobody answers the orchestrator about a report.
    if (events.question && run.trigger !== 'report') return { asks: events.question }
    return { status: 'completed', error: null, reportedBy: 'node' }
  } catch (error) {
    return outcomeOf(error, host, control)
  }
}

/** Null when there is nothing to say any more. A message may hold a mebibyte: once the node has it, nobody keeps it for the run's time. */
async function beginCall(
  host: RunHost,
  control: RunControl,
  node: RunNode,
  events: RunEvents,
): Promise<AsyncIterable<RunEvent> | null> {
  const { run, signal } = control
  const given = await persist(control, () => nodeMessageOf(host, run))
  if (run.cancelRequestedAt || given === null) return null
  host.news.started(run)
  await events.takeMessage()
  run.message = null
  return host.callNode({
    node,
    runId: run.runId,
    userId: run.userId,
    sessionId: run.sessionId,
    newMessage: given.message,
    streaming: run.streaming,
    ...(run.stateDelta && run.input === null ? { stateDelta: run.stateDelta } : {}),
    ...(given.customMetadata ? { customMetadata: given.customMetadata } : {}),
    signal,
  })
}

function outcomeOf(error: unknown, host: RunHost, { run }: RunControl): Outcome {
  if (error instanceof RunStopped) {
    switch (error.reason) {
      case 'canceled':
        return canceled
      case 'timeout':
        return failed(runTimeout)
      case 'stopping':
        return { again: 'stopped' }
      case 'lease_lost':
        return 'gone'
    }
  }
  if (error instanceof TooManyEvents) return failed(tooManyEvents, 'node')
  if (error instanceof NodeFault) {
    if (error.kind === 'agent_error') return failed(agentError(error.message, host.nodes().secrets), 'node')
    return { again: error.kind }
  }
  host.log.error({ run: run.runId, reason: describeError(error) }, 'runs.failed')
  return { again: 'lost' }
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
  if (outcome === 'gone') return
  if ('again' in outcome) {
    if (await givenBack(host, control, outcome.again)) return host.wake(run.slug)
    return conclude(host, control, events, await failedOrCanceled(host, control, outcome.again))
  }
  const { runId, epoch } = run
  const { summary } = events
  if ('asks' in outcome) {
    const asking = { runId, epoch, summary, question: outcome.asks, waitS: host.inputWaitS }
    if (await persist(control, () => askBack(host.relational, asking))) return host.asked(run)
    // Somebody canceled it, or ended it: then nothing more is written.
    return conclude(host, control, events, canceled)
  }
  const ended = await persist(control, () => host.endRun({ runId, epoch, summary, ...outcome }))
  if (ended) await host.ended([ended])
}

async function givenBack(host: RunHost, control: RunControl, why: GiveBack): Promise<boolean> {
  const { runId, epoch, attempt, askedAttempt } = control.run
  if (why === 'lost' && attempt - askedAttempt >= attemptsMax) return false
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
  if (rows[0]?.canceled) return canceled
  return failed(why === 'unavailable' ? nodeUnavailable : nodeLost)
}
