/** The request of a run: ADK's body, in either spelling, with what it leaves out filled in. */

import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import type { NodeSet, RunNode } from '../../nodes/types.ts'
import type { Content } from '../../state/types.ts'
import type { StartParts } from '../gateway.ts'
import {
  absentOr,
  bothSpellings,
  checkedExtra,
  checkedId,
  checkedMessage,
  content,
  faulty,
  fieldOf,
  id,
  object,
  sessionIdDescription,
  userIdDescription,
} from './fields.ts'
import { userFor } from './users.ts'

const onBusy = Type.Enum(['enqueue', 'reject'], {
  type: 'string',
  description:
    'While another run of the session is at work: wait behind it (the default), or 409 `session_busy`.',
})

export const runRequest = bothSpellings(
  {
    appName: absentOr(
      Type.String({ description: 'The codename of the agent in the path.', examples: ['WHALE'] }),
    ),
    userId: absentOr(id(userIdDescription)),
    sessionId: absentOr(id(sessionIdDescription)),
    newMessage: content,
    streaming: absentOr(Type.Boolean({ description: 'Events as they come, pieces of texts among them.' })),
    stateDelta: absentOr(object('Changes of the session’s state; passed to the agent.')),
    customMetadata: absentOr(object('Passed to the agent.')),
    onBusy: absentOr(onBusy),
  },
  {
    title: 'RunRequest',
    description: 'As Google ADK’s `/run`, in camelCase or snake_case. What is not known is ignored.',
  },
)

export interface RunRequest {
  node: RunNode
  userId: string
  /** Undefined: a new one. */
  sessionId: string | undefined
  message: Content
  streaming: boolean
  stateDelta: Record<string, unknown> | undefined
  customMetadata: Record<string, unknown> | undefined
  onBusy: Static<typeof onBusy>
  /** False: only the events of this run. */
  join: boolean
}

/** Without a slug `appName` names the agent. Throws AppError `agent_not_found`, `app_name_mismatch`, `user_mismatch`, `validation_failed`, `payload_too_large`. */
export async function readRunRequest(
  parts: Pick<StartParts, 'nodes' | 'relational'>,
  request: FastifyRequest,
  slug?: string,
): Promise<RunRequest> {
  const nodes = parts.nodes.current()
  const body = request.body as Record<string, unknown>
  const appName = fieldOf<string>(body, 'appName')
  const node = slug === undefined ? nodeNamed(nodes, appName) : nodeOf(nodes, slug)
  checkAppName(appName, node)
  return {
    node,
    userId: await userFor(parts.relational, callerOf(request), checkedId(fieldOf(body, 'userId'), 'userId')),
    sessionId: checkedId(fieldOf(body, 'sessionId'), 'sessionId'),
    message: checkedMessage(fieldOf(body, 'newMessage'), 'newMessage'),
    streaming: fieldOf(body, 'streaming') ?? false,
    stateDelta: checkedExtra(fieldOf(body, 'stateDelta'), 'stateDelta'),
    customMetadata: checkedExtra(fieldOf(body, 'customMetadata'), 'customMetadata'),
    onBusy: fieldOf(body, 'onBusy') ?? 'enqueue',
    join: (request.query as { join?: string }).join !== 'false',
  }
}

function nodeNamed(nodes: NodeSet, appName: string | undefined): RunNode {
  if (appName === undefined) throw faulty('appName', 'is required')
  return nodes.byCodename(appName) ?? nodeOf(nodes, appName.toLowerCase())
}

function nodeOf(nodes: NodeSet, slug: string): RunNode {
  const node = nodes.bySlug(slug)
  if (node) return node
  throw new AppError(
    'agent_not_found',
    `There is no agent ${JSON.stringify(slug.slice(0, 64).toWellFormed())}.`,
  )
}

function checkAppName(appName: string | undefined, { codename, slug, app }: RunNode): void {
  if (appName === undefined) return
  const names = [codename, slug, app].map((name) => name.toLowerCase())
  if (names.includes(appName.toLowerCase())) return
  throw new AppError('app_name_mismatch', `appName must be ${codename}, the agent of the path.`)
}
