/** What the headers of answers say about a run. */

import type { FastifyReply } from 'fastify'
import type { Run } from '../../state/types.ts'

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
