/** A node on a free port that speaks the protocol of ADK's api_server; what its agents do is a script of the test. */

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** The next step of an agent. The answer ends behind the last step. */
export type Step =
  /** A final event with this text; `partial` makes it a piece. */
  | { text: string; partial?: boolean }
  /** An event with these fields in addition to, or instead of, the usual ones. */
  | { event: Record<string, unknown> }
  | { waitMs: number }
  /** Ends only when the other side closes the connection, or the node goes down. */
  | { hang: true }
  /** The agent throws: an error frame, the last of the stream. */
  | { raise: string }
  /** Resets the connection. */
  | { cut: true }
  /** Bytes that are sent as they are. */
  | { raw: string | Buffer }
  /** Answers with this instead of a stream; only as the first step. */
  | { status: number; body?: string; headers?: Record<string, string> }

/** One call of /run_sse. */
export interface ScriptedRun {
  app: string
  userId: string
  sessionId: string
  /** The text parts of the message, joined. */
  text: string
  streaming: boolean
  /** As it came. */
  body: Record<string, unknown>
  headers: Record<string, string>
  /** From 1, among the runs of this app. */
  number: number
  /** A time of `performance.now()`. */
  startedAt: number
  endedAt: number | null
  /** Whether the other side closed the connection before the script's end. */
  aborted: boolean
}

export type Script = (run: ScriptedRun) => Iterable<Step> | AsyncIterable<Step>

export interface ScriptedNode {
  /** Stays the same over `down` and `up`. */
  readonly url: string
  /** By the app's name; may be changed at any time. An app is served as long as it has a script. */
  readonly scripts: Map<string, Script>
  /** In the order of arrival; those of sessions that do not exist are not among them. */
  readonly runs: ScriptedRun[]
  /** Every request as `POST /run_sse`, in the order of arrival. */
  readonly requests: string[]
  /** Runs being answered now, and the most that were. */
  readonly inFlight: number
  readonly inFlightMax: number
  /** Connections that were opened so far. */
  readonly connections: number
  /** `METHOD /path` of requests so far that begin with this. */
  count(prefix: string): number
  /** Requests for sessions are answered when it resolves. */
  sessionsHeld: Promise<void> | undefined
  /** As a node that lost its memory. */
  forgetSessions(): void
  /** The status that refuses to delete sessions. */
  deletion: number | undefined
  hasSession(app: string, userId: string, sessionId: string): boolean
  /** Refuses connections, and drops those that are open. */
  down(): Promise<void>
  /** Listens again on the same port. */
  up(): Promise<void>
  close(): Promise<void>
}

export interface ScriptedNodeOptions {
  /** Python's ADK is the default. */
  dialect?: 'python' | 'typescript'
  /** Bearer token that every request needs; the others are answered 401. */
  token?: string
}

/** Says what it heard. */
export const echoScript: Script = ({ app, text }) => [{ text: `${app} heard: ${text}` }]

export async function openScriptedNode(
  scripts: Record<string, Script>,
  options: ScriptedNodeOptions = {},
): Promise<ScriptedNode> {
  const node = new Node(scripts, options)
  await node.up()
  return node
}

class Node implements ScriptedNode {
  readonly scripts: Map<string, Script>
  readonly runs: ScriptedRun[] = []
  readonly requests: string[] = []
  inFlight = 0
  inFlightMax = 0
  connections = 0
  sessionsHeld: Promise<void> | undefined
  deletion: number | undefined
  #port = 0
  #server: Server | null = null
  readonly #sessions = new Set<string>()
  readonly #options: ScriptedNodeOptions

  constructor(scripts: Record<string, Script>, options: ScriptedNodeOptions) {
    this.scripts = new Map(Object.entries(scripts))
    this.#options = options
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  count(prefix: string): number {
    return this.requests.filter((request) => request.startsWith(prefix)).length
  }

  forgetSessions(): void {
    this.#sessions.clear()
  }

  hasSession(app: string, userId: string, sessionId: string): boolean {
    return this.#sessions.has(JSON.stringify([app, userId, sessionId]))
  }

  async up(): Promise<void> {
    if (this.#server) return
    const server = createServer((request, response) => void this.#answer(request, response))
    server.keepAliveTimeout = 60_000
    server.on('connection', (socket) => {
      this.connections++
      socket.on('error', () => {})
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#port = (server.address() as AddressInfo).port
    this.#server = server
  }

  async down(): Promise<void> {
    const server = this.#server
    this.#server = null
    if (!server) return
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    server.closeAllConnections()
    await closed
  }

  close(): Promise<void> {
    return this.down()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request).catch(() => null)
    if (body === null) return
    const path = (request.url ?? '').split('?')[0] as string
    this.requests.push(`${request.method} ${path}`)
    const { token } = this.#options
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) {
      return this.#refuse(response, 401, 'Unauthorized')
    }
    if (path === '/health') return send(response, 200, { status: 'ok' })
    if (path === '/list-apps') return send(response, 200, [...this.scripts.keys()])
    // Python's server decodes a path before it looks for its route: an id with a slash finds none.
    const isDecoded = this.#options.dialect !== 'typescript'
    const routed = isDecoded ? decodeURIComponent(path) : path
    const session = /^\/apps\/([^/]+)\/users\/([^/]+)\/sessions(?:\/([^/]+))?$/.exec(routed)
    if (request.method === 'POST' && session) {
      await this.sessionsHeld
      const names = session.slice(1).map((name) => (isDecoded ? name : name && decodeURIComponent(name)))
      return this.#createSession(response, names, body)
    }
    if (request.method === 'DELETE' && session) {
      const names = session.slice(1).map((name) => (isDecoded ? name : name && decodeURIComponent(name)))
      if (this.deletion !== undefined) return this.#refuse(response, this.deletion, 'Not now')
      const known = this.#sessions.delete(JSON.stringify(names))
      return known ? send(response, 200, null) : this.#refuse(response, 404, 'Session not found')
    }
    if (request.method === 'POST' && path === '/run_sse') return await this.#run(request, response, body)
    this.#refuse(response, 404, 'Not Found')
  }

  #createSession(
    response: ServerResponse,
    [app, userId, inPath]: (string | undefined)[],
    body: Record<string, unknown>,
  ): void {
    // The TypeScript server overlooks an id in the body.
    const named = this.#options.dialect === 'typescript' ? undefined : (body.sessionId ?? body.session_id)
    const id = inPath ?? named ?? randomUUID()
    const key = JSON.stringify([app, userId, id])
    if (this.#sessions.has(key)) {
      this.#refuse(response, 409, `Session already exists: ${id}`)
      return
    }
    this.#sessions.add(key)
    send(response, 200, { id, appName: app, userId, state: {}, events: [], lastUpdateTime: this.#now() })
  }

  async #run(
    request: IncomingMessage,
    response: ServerResponse,
    body: Record<string, unknown>,
  ): Promise<void> {
    const { appName, userId, sessionId } = body
    const script = this.scripts.get(String(appName))
    if (!script) return this.#refuse(response, 404, `Agent not found: '${appName}'. Not in '/home/agents'.`)
    if (!this.#sessions.has(JSON.stringify([appName, userId, sessionId]))) {
      return this.#refuse(response, 404, `Session not found: ${sessionId}`)
    }
    const run = describe(request, body, this.runs.filter(({ app }) => app === appName).length + 1)
    this.runs.push(run)
    this.inFlightMax = Math.max(this.inFlightMax, ++this.inFlight)
    const closed = new AbortController()
    response.once('close', () => closed.abort())
    try {
      await this.#play(run, script, response, closed.signal)
    } finally {
      this.inFlight--
      run.endedAt = performance.now()
    }
  }

  async #play(
    run: ScriptedRun,
    script: Script,
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    const invocationId = `e-${randomUUID()}`
    for await (const step of script(run)) {
      if (signal.aborted) break
      if ('status' in step) {
        response.writeHead(step.status, { 'content-type': 'text/plain', ...step.headers })
        return void response.end(step.body ?? '')
      }
      if ('waitMs' in step) await pause(step.waitMs, undefined, { signal }).catch(() => {})
      else if ('hang' in step) await pause(600_000, undefined, { signal }).catch(() => {})
      else if ('cut' in step) return void response.socket?.resetAndDestroy()
      else if ('raise' in step) return raise(step.raise, response)
      else if (!write(response, 'raw' in step ? step.raw : frame(this.#event(run, invocationId, step)))) {
        await once(response, 'drain', { signal }).catch(() => {})
      }
    }
    run.aborted = signal.aborted
    if (signal.aborted) return
    if (!response.headersSent) response.writeHead(200, streamHead)
    response.end()
  }

  #event(
    run: ScriptedRun,
    invocationId: string,
    step: { text: string; partial?: boolean } | { event: Record<string, unknown> },
  ): Record<string, unknown> {
    const usual = {
      invocationId,
      author: run.app,
      actions: {
        stateDelta: {},
        artifactDelta: {},
        requestedAuthConfigs: {},
        requestedToolConfirmations: {},
      },
      ...(run.body.customMetadata ? { customMetadata: run.body.customMetadata } : {}),
      id: randomUUID(),
      timestamp: this.#now(),
    }
    if ('event' in step) return { ...usual, ...step.event }
    const content = { parts: [{ text: step.text }], role: 'model' }
    return { content, ...usual, ...(step.partial ? { partial: true } : {}) }
  }

  /** Seconds in Python, milliseconds in TypeScript. */
  #now(): number {
    return this.#options.dialect === 'typescript' ? Date.now() : Date.now() / 1000
  }

  #refuse(response: ServerResponse, status: number, text: string): void {
    send(response, status, this.#options.dialect === 'typescript' ? { error: text } : { detail: text })
  }
}

const streamHead = { 'content-type': 'text/event-stream; charset=utf-8' }

/** False when the other side takes nothing for now. */
function write(response: ServerResponse, bytes: string | Buffer): boolean {
  if (!response.headersSent) response.writeHead(200, streamHead)
  return response.write(bytes)
}

function frame(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

function raise(message: string, response: ServerResponse): void {
  const fault = { error_type: 'RuntimeError', error_message: message, traceback: '/home/agents/agent.py' }
  write(response, frame({ error: `RuntimeError: ${message}`, error_details: fault }))
  response.end()
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>)
}

function describe(request: IncomingMessage, body: Record<string, unknown>, number: number): ScriptedRun {
  const message = body.newMessage as { parts?: { text?: string }[] } | undefined
  return {
    app: String(body.appName),
    userId: String(body.userId),
    sessionId: String(body.sessionId),
    text: (message?.parts ?? []).map(({ text }) => text ?? '').join(''),
    streaming: body.streaming === true,
    body,
    headers: request.headers as Record<string, string>,
    number,
    startedAt: performance.now(),
    endedAt: null,
    aborted: false,
  }
}
