/** What the headers of answers say about a run. */

import type { FastifyReply } from 'fastify'
import type { Run } from '../../state/types.ts'

export const runHeaders = {
  'X-Run-Id': 'The id of the run.',
  'X-Session-Id': 'Its session; percent-encoded where it is not visible ASCII.',
  'X-User-Id': 'Its user; percent-encoded where it is not visible ASCII.',
  Location: 'Where the run is shown.',
}

export function tellRun(reply: FastifyReply, run: Pick<Run, 'runId' | 'sessionId' | 'userId'>): void {
  reply.header('x-run-id', run.runId)
  reply.header('x-session-id', headerText(run.sessionId))
  reply.header('x-user-id', headerText(run.userId))
  reply.header('location', `/runs/${run.runId}`)
  reply.header('cache-control', 'no-store')
}

function headerText(text: string): string {
  return /^[\x21-\x7e]+$/.test(text) ? text : encodeURIComponent(text)
}
