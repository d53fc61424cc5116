/** What comes to a node and what it answers: who may ask, bodies, refusals as ADK words them. */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isLoopbackHost } from '#lib/hosts.ts'

const bodyBytesMax = 1024 * 1024

export class Refusal extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** A page in a browser could reach a node without a token: its Host header would not be this machine's. */
export function checkCaller(token: string | undefined, { headers }: IncomingMessage): void {
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

export interface RunRequest {
  app: string
  userId: string
  sessionId: string
  /** Of the message's parts. */
  texts: string[]
  message: object
  stateDelta: Record<string, unknown>
  customMetadata: Record<string, unknown> | undefined
  streaming: boolean
}

/** camelCase and snake_case, as ADK. */
export function readRun(body: Record<string, unknown>): RunRequest {
  const userId = textOf(body.userId ?? body.user_id)
  const sessionId = textOf(body.sessionId ?? body.session_id)
  const message = objectOf(body.newMessage ?? body.new_message)
  const parts = Array.isArray(message.parts) ? message.parts : []
  const texts = parts.flatMap((part) => textOf(objectOf(part).text) ?? [])
  if (userId === undefined || sessionId === undefined || texts.length === 0) {
    throw new Refusal(422, 'userId, sessionId and newMessage with a text are required.')
  }
  const metadata = body.customMetadata ?? body.custom_metadata
  return {
    app: textOf(body.appName ?? body.app_name) ?? '',
    userId,
    sessionId,
    texts,
    message,
    stateDelta: objectOf(body.stateDelta ?? body.state_delta),
    customMetadata: metadata === undefined ? undefined : objectOf(metadata),
    streaming: body.streaming === true,
  }
}

export async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bodyBytesMax) throw new Refusal(413, 'The body is too large.')
    chunks.push(chunk)
  }
  if (bytes === 0) return {}
  try {
    return objectOf(JSON.parse(Buffer.concat(chunks).toString('utf8')))
  } catch {
    throw new Refusal(422, 'The body is not JSON.')
  }
}

export function decoded(part: string | undefined): string | undefined {
  try {
    return part === undefined ? undefined : decodeURIComponent(part)
  } catch {
    throw new Refusal(400, 'The path is not valid.')
  }
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

export function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
}

export function send(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

export function refuse(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const { status, message } = error instanceof Refusal ? error : new Refusal(500, 'Internal Server Error')
  // What was not read of the body would be taken for the next request.
  response.setHeader('connection', 'close')
  send(response, { detail: message }, status)
}
