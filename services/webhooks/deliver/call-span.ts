/** A call of a target as a client span, whose context goes to the target. */

import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { Request } from './connection.ts'
import type { TargetState } from './target-state.ts'
import { type CallResult, verdictOf } from './verdict.ts'

/** Host and port alone are written down: path and query of a target may be secrets. */
export async function callInSpan(
  tracing: Tracing,
  state: Pick<TargetState, 'target' | 'call'>,
  request: Request,
  attempt: number,
): Promise<CallResult> {
  const { name, url } = state.target
  const span = tracing.beginChild('POST', {
    kind: 'client',
    attributes: {
      'http.request.method': 'POST',
      'http.request.resend_count': attempt - 1,
      'server.address': url.hostname,
      'server.port': Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
      'flotilla.target': name,
    },
  })
  if (!span) return state.call(request)
  // A target may have a header of that name of its own.
  const isOwn = request.headers.some((one, n) => n % 2 === 0 && one.toLowerCase() === 'traceparent')
  const traced = isOwn ? [] : ['traceparent', span.traceparent]
  const result = await state.call({ ...request, headers: [...request.headers, ...traced] })
  const { status, fault } = result
  if (status !== null) span.set({ 'http.response.status_code': status })
  span.end(verdictOf(result) === 'delivered' ? undefined : (fault ?? String(status)))
  return result
}
