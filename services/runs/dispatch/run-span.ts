/** The work on a run as a span of the trace of the request that began it. */

import { followed } from '#runtime/observe/tracing/follow.ts'
import { isSampled, type Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { ClaimedRun } from '../state/columns.ts'

/** Each attempt is a span; runs that the agent calls for become its children. */
export function inRunSpan(
  tracing: Tracing | undefined,
  run: ClaimedRun,
  work: () => Promise<void>,
): Promise<void> {
  if (!tracing) return work()
  const begunBy = run.traceparent ?? undefined
  if (!isSampled(begunBy)) return tracing.run([], work)
  const span = tracing.begin(`run ${run.slug}`, {
    kind: 'consumer',
    traceparent: begunBy,
    attributes: {
      'flotilla.run_id': run.runId,
      'flotilla.agent': run.agent,
      'flotilla.trigger': run.trigger,
      'flotilla.attempt': run.attempt,
    },
  })
  // Of this object alone: the row keeps that of the request, for the next attempt.
  run.traceparent = span.traceparent
  return followed([span], tracing.run([span], work))
}
