/** What the headers of answers say about a run or a dispatch. */

import type { FastifyReply } from 'fastify'
import type { Dispatch, Run } from '../../state/types.ts'

export function tellRun(reply: FastifyReply, run: Pick<Run, 'runId' | 'sessionId' | 'userId'>): void {
  reply.header('x-run-id', run.runId)
  reply.header('location', `/runs/${run.runId}`)
  tellSession(reply, run)
}

export function tellDispatch(reply: FastifyReply, dispatch: Dispatch): void {
  reply.header('location', `/dispatches/${dispatch.goalId}`)
  tellSession(reply, dispatch)
}

function tellSession(reply: FastifyReply, { sessionId, userId }: Pick<Run, 'sessionId' | 'userId'>): void {
  reply.header('x-session-id', headerText(sessionId))
  reply.header('x-user-id', headerText(userId))
  reply.header('cache-control', 'no-store')
}

/** Percent-encoded where it has to be, and where it has a percent sign: otherwise two texts would look alike. */
function headerText(text: string): string {
  return /^[\x21-\x24\x26-\x7e]+$/.test(text) ? text : encodeURIComponent(text.toWellFormed())
}
