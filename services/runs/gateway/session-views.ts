/** What callers see of sessions. */

import { Type } from 'typebox'
import type { Session } from '../state/sessions.ts'
import { runEvents as eventsOfRun, status } from './views.ts'

const time = Type.String({ format: 'date-time', examples: ['2026-01-31T12:00:00.000Z'] })

const session = Type.Object(
  {
    sessionId: Type.String(),
    userId: Type.String(),
    agents: Type.Array(Type.String(), { description: 'Codenames of all that ran in it.' }),
    runs: Type.Integer({ description: 'With those that joined.' }),
    createdAt: time,
    lastAt: { ...time, description: 'When a run of it last began or ended.' },
    lastMessage: Type.Union([Type.String(), Type.Null()], {
      description: 'The first 200 characters of the last message.',
    }),
    lastStatus: { ...status, description: 'The status of the run that answers it.' },
  },
  { title: 'Session' },
)

export const sessions = Type.Array(session, {
  title: 'Sessions',
  description: 'The one with the newest message first.',
})

export const sessionEvents = Type.Array(eventsOfRun.items, {
  title: 'SessionEvents',
  description: 'Messages, with the author `user`, and events of agents, in order.',
})

export const sessionDeleted = Type.Object(
  { sessionId: Type.String(), userId: Type.String(), deleted: Type.Literal(true) },
  { title: 'SessionDeleted', description: 'It is gone.' },
)

export function viewOfSession({ createdAt, lastAt, ...session }: Session) {
  return { ...session, createdAt: createdAt.toISOString(), lastAt: lastAt.toISOString() }
}
