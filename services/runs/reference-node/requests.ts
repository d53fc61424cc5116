/**
 * Requests to a node: who may call, and runs; and the sessions that it keeps, in bounded memory: one that was forgotten is made
 * again by whoever asks.
 */

import { createHash, randomUUID, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isLoopbackHost } from '#lib/hosts.ts'
import { createLru } from '#lib/lru.ts'

export class Refusal extends Error {
  readonly statusCode: number
  constructor(statusCode: number, message: string) {
    super(message)
    this.statusCode = statusCode
  }
}

/** A page in a browser could reach a node without a token: its Host header would not be this machine's. */
export function checkCaller(token: string | undefined, headers: IncomingHttpHeaders): void {
  if (token === undefined) {
    const host = (headers.host ?? '').replace(/:\d+$/, '')
    if (!isLoopbackHost(host) || headers.origin !== undefined) throw new Refusal(403, 'Forbidden')
    return
  }
  const digest = (text: string) => createHash('sha256').update(text).digest()
  if (!timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${token}`))) {
    throw new Refusal(401, 'Unauthorized')
  }
}

export type RunRequest = ReturnType<typeof readRun>

/** camelCase and snake_case, as ADK. */
export function readRun(body: Record<string, unknown>) {
  const userId = textOf(body.userId ?? body.user_id)
  const sessionId = textOf(body.sessionId ?? body.session_id)
  const message = objectOf(body.newMessage ?? body.new_message)
  const parts = (Array.isArray(message.parts) ? message.parts : []).map(objectOf)
  const texts = parts.flatMap(({ text }) => textOf(text) ?? [])
  if (userId === undefined || sessionId === undefined || !parts.some(saysSomething)) {
    throw new Refusal(422, 'userId, sessionId and newMessage with a part are required.')
  }
  const metadata = body.customMetadata ?? body.custom_metadata
  return {
    app: textOf(body.appName ?? body.app_name) ?? '',
    userId,
    sessionId,
    /** Texts of the message's parts. */
    texts,
    message,
    /** Its parts as a session keeps them. */
    kept: parts.map(withoutBytes),
    stateDelta: objectOf(body.stateDelta ?? body.state_delta),
    customMetadata: metadata === undefined ? undefined : objectOf(metadata),
    streaming: body.streaming === true,
  }
}

function saysSomething({ text, ...others }: Record<string, unknown>): boolean {
  return textOf(text) !== undefined || Object.values(others).some((value) => objectOf(value) === value)
}

/** Sessions are kept in memory, where the bytes of files have no place. */
function withoutBytes(part: Record<string, unknown>): Record<string, unknown> {
  const key = 'inlineData' in part ? 'inlineData' : 'inline_data'
  return key in part ? { ...part, [key]: { ...objectOf(part[key]), data: '' } } : part
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

export function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
}

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

export type Sessions = ReturnType<typeof createSessions>

export function createSessions() {
  const kept = createLru<string, NodeSession>(sessionsMax)
  const keyOf = (...ids: string[]) => JSON.stringify(ids)
  return {
    get: (app: string, userId: string, id: string) => kept.get(keyOf(app, userId, id)),
    /** Null when there is one of this id. */
    create(appName: string, userId: string, id: string = randomUUID(), state: Record<string, unknown> = {}) {
      const key = keyOf(appName, userId, id)
      if (kept.has(key)) return null
      const session: NodeSession = { id, appName, userId, state, events: [], lastUpdateTime: secondsNow() }
      kept.set(key, session)
      return session
    },
    delete: (app: string, userId: string, id: string) => void kept.delete(keyOf(app, userId, id)),
    add(session: NodeSession, event: object): void {
      session.events.push(event)
      if (session.events.length > eventsMax) session.events.shift()
      session.lastUpdateTime = secondsNow()
    },
  }
}

function secondsNow(): number {
  return Date.now() / 1_000
}
