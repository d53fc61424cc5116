/** A run that has not completed, as the fault of the call that waited for it. */

import { ProblemError } from './problem-error.ts'
import type { Run } from './run-types.ts'

const statusOf: Readonly<Record<string, number>> = {
  agent_error: 502,
  node_lost: 502,
  node_unavailable: 503,
  run_timeout: 504,
  input_expired: 504,
  too_many_events: 502,
}

export function faultOf({ runId, status, error }: Run): ProblemError {
  const code = error?.code ?? (status === 'canceled' ? 'run_canceled' : 'agent_error')
  return new ProblemError({
    code,
    status: status === 'canceled' ? 409 : (statusOf[code] ?? 502),
    detail: `${runId}: ${error?.message ?? 'somebody canceled it'}`,
    requestId: undefined,
    retryAfter: undefined,
    errors: [],
  })
}
