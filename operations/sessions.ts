/** Sessions, as operators list, read and delete them. */

import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { pageBytesMax } from '#runtime/http/answers.ts'
import { saidIn, sessionStart } from '#services/runs/follow/follow-session.ts'
import { deleteSession } from '#services/runs/gateway/delete-session.ts'
import { checkedId } from '#services/runs/gateway/requests.ts'
import { viewOfSession } from '#services/runs/gateway/session-views.ts'
import { loadNodes } from '#services/runs/nodes/nodes.ts'
import { findSession, listSessions, type SessionKey } from '#services/runs/state/sessions.ts'
import { type RunEvent, spokenText } from '#services/runs/state/types.ts'
import { type Action, defineAction, tableOf } from './action.ts'
import type { OperatedPlatform, OperationContext } from './operation.ts'
import { listPages, operator } from './operator.ts'

type SessionView = ReturnType<typeof viewOfSession>

/** Items of a long history, handed over together. */
const eventsAtOnce = 100
const limitMax = 1_000

const text = Type.Optional(Type.String({ minLength: 1 }))
const limit = Type.Optional(Type.Integer({ minimum: 1, maximum: limitMax }))
const one = { id: Type.String({ description: 'its id' }), userId: text }
const userOption = { userId: ['id', 'of this user; default: operator'] } as const
const words = { userId: 'user' } as const

const listSessionsAction = defineAction({
  name: 'sessions list',
  summary: 'The one with the newest message first',
  args: Type.Object({ userId: text, agent: text, limit }),
  /** Items are pages before the last. */
  async run(
    { platform, output }: OperationContext<SessionView[]>,
    { userId = operator.uid, limit: most = 100, ...filter },
  ) {
    const { relational } = platform.engines
    const sessions = await listPages(output, most, async (limit, before: number | undefined) => {
      const from = before === undefined ? {} : { before }
      const page = await listSessions(relational, { own: null, userId, ...filter, limit, ...from })
      return { rows: page.sessions.map(viewOfSession), next: page.next }
    })
    return { sessions }
  },
  cli: [
    {
      options: {
        ...userOption,
        agent: ['codename', 'only sessions in which this agent ran'],
        limit: ['count', `at most so many, from 1 to ${limitMax}; default 100`],
      },
      words,
      example: 'flotilla sessions list --agent ATLAS',
      gather: (pages, last) => ({ sessions: [...pages.flat(), ...last.sessions] }),
      render: ({ sessions }) =>
        tableOf(sessions, {
          session: ({ sessionId }) => sessionId,
          agents: ({ agents }) => agents.join(' '),
          runs: ({ runs }) => runs,
          last: ({ lastAt }) => lastAt,
          status: ({ lastStatus }) => lastStatus,
          message: ({ lastMessage }) => lastMessage,
        }),
    },
  ],
})

const showSessionAction = defineAction({
  name: 'sessions show',
  summary: 'Its messages and the answers to them',
  args: Type.Object(one),
  /** Items are events before the last ones. */
  async run({ platform, output }: OperationContext<RunEvent[]>, args) {
    const session = await sessionNamed(platform, args)
    const { relational } = platform.engines
    let events: RunEvent[] = []
    let bytes = 0
    for await (const { event } of saidIn({ relational, session, own: null }, sessionStart())) {
      events.push(event)
      bytes += Buffer.byteLength(JSON.stringify(event))
      if (events.length < eventsAtOnce && bytes < pageBytesMax) continue
      await output.item(events)
      events = []
      bytes = 0
    }
    return { events }
  },
  cli: [
    {
      positional: ['id'],
      options: userOption,
      words,
      example: 'flotilla sessions show lighthouse',
      gather: (pages, last) => ({ events: [...pages.flat(), ...last.events] }),
      render: ({ events }) => ({
        ...(tableOf(events, {
          at: ({ timestamp }) => new Date(timestamp * 1_000).toISOString(),
          author: ({ author }) => author,
          said: ({ content, errorMessage }) => (content ? spokenText(content) : (errorMessage ?? null)),
        }) as { head: string[]; rows: string[][] }),
        wrap: true,
      }),
    },
  ],
})

const deleteSessionAction = defineAction({
  name: 'sessions delete',
  summary: 'Delete it, at the nodes of its agents, too',
  change: { action: 'session.delete', target: ({ id }) => `session/${id}` },
  args: Type.Object(one),
  async run({ platform, signal }, args) {
    const session = await sessionNamed(platform, args)
    const { relational } = platform.engines
    await deleteSession({ relational, nodes: loadNodes(platform.env), own: null, signal }, session)
    return { sessionId: session.sessionId, userId: session.userId, deleted: true as const }
  },
  cli: [
    {
      positional: ['id'],
      options: userOption,
      words,
      example: 'flotilla sessions delete lighthouse',
      render: ({ sessionId }) => `${sessionId} deleted`,
    },
  ],
})

/** Throws AppError `session_not_found`. */
async function sessionNamed(
  { engines }: OperatedPlatform,
  { id, userId }: { id: string; userId?: string },
): Promise<SessionKey> {
  const named = { userId: checkedId(userId, 'userId') ?? operator.uid, sessionId: checkedId(id, 'id')! }
  const session = await findSession(engines.relational, null, named)
  if (session) return session
  throw new AppError('session_not_found', 'There is no such session of this user.')
}

export const sessionActions: readonly Action[] = [listSessionsAction, showSessionAction, deleteSessionAction]
