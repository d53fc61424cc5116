/** The request of a dispatch: a message to every agent. */

import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { shownAs } from '#runtime/http/api/shown-as.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import type { Content } from '../../state/types.ts'
import {
  absentOr,
  bothSpellings,
  checkedId,
  checkedMessage,
  content,
  fieldOf,
  id,
  sessionIdDescription,
  userIdDescription,
} from './fields.ts'
import { userFor } from './users.ts'

const text = Type.String({ examples: ['What do you know about the relay?'] })

export const dispatchRequest = bothSpellings(
  {
    userId: absentOr(id(userIdDescription)),
    sessionId: absentOr(id(sessionIdDescription)),
    message: Type.Union([text, content], {
      description: 'A text, or a message as in a run.',
      ...shownAs(Type.Union([text, content], { description: 'A text, or a message as in a run.' })),
    }),
  },
  { title: 'DispatchRequest', description: 'What is not known is ignored.' },
)

interface DispatchRequest {
  userId: string
  /** Undefined: a new one. */
  sessionId: string | undefined
  message: Content
}

/** Throws AppError `user_mismatch`, `validation_failed`, `payload_too_large`. */
export async function readDispatchRequest(
  executor: SqlExecutor,
  request: FastifyRequest,
): Promise<DispatchRequest> {
  const body = request.body as Record<string, unknown>
  return {
    userId: await userFor(executor, callerOf(request), checkedId(fieldOf(body, 'userId'), 'userId')),
    sessionId: checkedId(fieldOf(body, 'sessionId'), 'sessionId'),
    message: checkedMessage(fieldOf(body, 'message'), 'message'),
  }
}
