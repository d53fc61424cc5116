/** The names of log lines of answers from 500 on: an operator sees at once whether an engine, an agent or time is the reason. */

import type { ErrorCode } from '#lib/error-codes.ts'

const engineAway = 'http.engine-away'
const agentError = 'http.agent-error'
const timeout = 'http.timeout'

const names: Partial<Record<ErrorCode, string>> = {
  log_unavailable: engineAway,
  vector_engine_unavailable: engineAway,
  relational_engine_unavailable: engineAway,
  registry_unavailable: engineAway,
  embedder_unavailable: engineAway,
  identity_unavailable: engineAway,
  storage_unavailable: 'http.storage-unavailable',
  operation_failed: 'http.operation-failed',
  agent_error: agentError,
  too_many_events: agentError,
  node_lost: 'http.node-away',
  node_unavailable: 'http.node-away',
  query_timeout: timeout,
  run_timeout: timeout,
  not_yet_applied: timeout,
  overloaded: 'http.overloaded',
  shutting_down: 'http.shutting-down',
}

export function faultLineOf({ code, statusCode }: { code: ErrorCode; statusCode: number }): string {
  return statusCode === 500 ? 'http.fault' : (names[code] ?? 'http.refused')
}
