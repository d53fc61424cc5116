/** Sessions of a node, in bounded memory: one that was forgotten is made again by whoever asks. */

import { randomUUID } from 'node:crypto'
import { createLru } from '#lib/lru.ts'

const sessionsMax = 1_000
/** The newest of a session. */
const eventsMax = 40

/** As ADK shows it. */
export interface NodeSession {
  id: string
  appName: string
  userId: string
  state: Record<string, unknown>
  events: object[]
  /** In seconds. */
  lastUpdateTime: number
}

export interface Sessions {
  get(app: string, userId: string, id: string): NodeSession | undefined
  /** Null when there is one of this id. */
  create(
    app: string,
    userId: string,
    id: string | undefined,
    state: Record<string, unknown>,
  ): NodeSession | null
  delete(app: string, userId: string, id: string): void
  add(session: NodeSession, event: object): void
}

export function createSessions(): Sessions {
  const kept = createLru<string, NodeSession>(sessionsMax)
  const keyOf = (...ids: string[]) => JSON.stringify(ids)
  return {
    get: (app, userId, id) => kept.get(keyOf(app, userId, id)),
    create(appName, userId, id = randomUUID(), state) {
      const key = keyOf(appName, userId, id)
      if (kept.has(key)) return null
      const session = { id, appName, userId, state, events: [], lastUpdateTime: Date.now() / 1_000 }
      kept.set(key, session)
      return session
    },
    delete: (app, userId, id) => void kept.delete(keyOf(app, userId, id)),
    add(session, event) {
      session.events.push(event)
      if (session.events.length > eventsMax) session.events.shift()
      session.lastUpdateTime = Date.now() / 1_000
    },
  }
}
