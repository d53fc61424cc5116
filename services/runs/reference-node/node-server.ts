/** A node over HTTP: speaks the protocol of ADK's api_server for the agents behind it, each an app of its own. */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describeError } from '#lib/errors.ts'
import { withoutSeparators } from '#lib/json-line.ts'
import type { Closeable } from '#lib/resource.ts'
import type { NodeAgent, Said } from './agent.ts'
import {
  bodyOf,
  checkCaller,
  decoded,
  objectOf,
  Refusal,
  type RunRequest,
  readRun,
  refuse,
  send,
  textOf,
} from './requests.ts'
import { createSessions, type NodeSession, type Sessions } from './sessions.ts'

const connectionsMax = 500
const runsMax = 100
const receiveMs = 30_000
/** Longer than callers keep theirs, so that they do not send into one that closes. */
const keepAliveMs = 65_000

interface NodeServerOptions {
  /** By the app's name. */
  agents: ReadonlyMap<string, NodeAgent>
  host: string
  /** 0 takes a free one. */
  port: number
  /** Every request but /health needs it as bearer credential. Without one, callers of other machines are refused. */
  token: string | undefined
  /** Faults of agents, without what they were asked. */
  onFault(app: string, fault: string): void
}

export interface NodeServer extends Closeable {
  readonly url: string
}

interface Serving extends NodeServerOptions {
  sessions: Sessions
  running: Set<AbortController>
}

/** Throws what the system says when the port is taken. */
export async function openNodeServer(options: NodeServerOptions): Promise<NodeServer> {
  const serving: Serving = { ...options, sessions: createSessions(), running: new Set() }
  const server = createServer((request, response) => {
    // A caller that goes away is no fault.
    response.on('error', () => {})
    answer(serving, request, response).catch((error: unknown) => refuse(response, error))
  })
  server.maxConnections = connectionsMax
  server.requestTimeout = receiveMs
  server.keepAliveTimeout = keepAliveMs
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const run of serving.running) run.abort()
      server.closeAllConnections()
      await closed
    },
  }
}

const sessionPath = /^\/apps\/([^/]+)\/users\/([^/]+)\/sessions(?:\/([^/]+))?$/

async function answer(serving: Serving, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = (request.url ?? '').split('?')[0]!
  const call = `${request.method} ${path}`
  if (call === 'GET /health') return send(response, { status: 'ok' })
  checkCaller(serving.token, request)
  if (call === 'GET /version') {
    return send(response, {
      version: version(),
      language: 'typescript',
      language_version: process.versions.node,
    })
  }
  if (call === 'GET /list-apps') return send(response, appsOf(serving, request))
  const session = sessionPath.exec(path)?.slice(1).map(decoded)
  if (session) return await answerSession(serving, request, response, session as SessionPath)
  if (call === 'POST /run' || call === 'POST /run_sse') {
    const asked = admit(serving, readRun(await bodyOf(request)))
    return call === 'POST /run'
      ? await runWhole(serving, asked, response)
      : await runStream(serving, asked, response)
  }
  throw new Refusal(404, 'Not Found')
}

function appsOf({ agents }: Serving, { url = '' }: IncomingMessage): unknown {
  if (!/[?&]detailed=true(&|$)/.test(url)) return [...agents.keys()]
  const apps = [...agents].map(([name, { description }]) => ({
    name,
    rootAgentName: name,
    description,
    language: 'typescript',
    isComputerUse: false,
  }))
  return { apps }
}

function version(): string {
  const file = new URL('../../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

type SessionPath = [app: string, userId: string, id: string | undefined]

async function answerSession(
  { agents, sessions }: Serving,
  request: IncomingMessage,
  response: ServerResponse,
  [app, userId, inPath]: SessionPath,
): Promise<void> {
  if (!agents.has(app)) throw unknownAgent(app)
  if (request.method === 'POST') {
    const body = await bodyOf(request)
    const id = inPath ?? textOf(body.sessionId ?? body.session_id)
    const made = sessions.create(app, userId, id, objectOf(body.state))
    if (made === null) throw new Refusal(409, `Session already exists: ${id}`)
    return send(response, made)
  }
  if (inPath === undefined) throw new Refusal(405, 'Method Not Allowed')
  if (request.method === 'DELETE') {
    sessions.delete(app, userId, inPath)
    return send(response, null)
  }
  const found = request.method === 'GET' ? sessions.get(app, userId, inPath) : undefined
  if (!found) throw new Refusal(404, 'Session not found')
  send(response, found)
}

/** A run that may begin. */
interface Asked extends RunRequest {
  agent: NodeAgent
  session: NodeSession
  invocationId: string
}

function admit({ agents, sessions }: Serving, run: RunRequest): Asked {
  const agent = agents.get(run.app)
  if (!agent) throw unknownAgent(run.app)
  const session = sessions.get(run.app, run.userId, run.sessionId)
  if (!session) throw new Refusal(404, `Session not found: ${run.sessionId}`)
  Object.assign(session.state, run.stateDelta)
  return { ...run, agent, session, invocationId: `e-${randomUUID()}` }
}

async function runWhole(serving: Serving, asked: Asked, response: ServerResponse): Promise<void> {
  const events: object[] = []
  for await (const event of eventsOf(serving, asked, response)) events.push(event)
  send(response, events)
}

async function runStream(serving: Serving, asked: Asked, response: ServerResponse): Promise<void> {
  try {
    for await (const event of eventsOf(serving, asked, response)) {
      writeFrame(response, event)
    }
  } catch (error) {
    if (error instanceof Refusal) throw error
    const fault = { error_type: 'AgentError', error_message: describeError(error) }
    writeFrame(response, { error: describeError(error), error_details: fault })
  }
  begin(response)
  response.end()
}

function writeFrame(response: ServerResponse, value: object): void {
  begin(response)
  response.write(`data: ${withoutSeparators(JSON.stringify(value))}\n\n`)
}

function begin(response: ServerResponse): void {
  if (response.headersSent) return
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' })
}

/** A caller that closes its connection cancels the run. */
async function* eventsOf(serving: Serving, asked: Asked, response: ServerResponse): AsyncGenerator<object> {
  const { agent, session, texts, customMetadata = {} } = asked
  const { running, sessions, onFault } = serving
  if (running.size >= runsMax) throw new Refusal(503, 'Too many runs at once.')
  const gone = new AbortController()
  running.add(gone)
  response.once('close', () => gone.abort())
  const message = { texts, userId: session.userId, sessionId: session.id, customMetadata }
  try {
    sessions.add(session, { ...frameOf(asked, 'user'), content: { role: 'user', ...asked.message } })
    for await (const said of agent.answer(message, gone.signal)) {
      if (gone.signal.aborted) return
      if (said.partial && !asked.streaming) continue
      const event = eventOf(asked, said)
      if (!said.partial) sessions.add(session, event)
      yield event
    }
  } catch (error) {
    if (gone.signal.aborted) return
    onFault(session.appName, describeError(error))
    throw error
  } finally {
    running.delete(gone)
  }
}

function eventOf(asked: Asked, { text, partial }: Said): object {
  return {
    content: { parts: [{ text }], role: 'model' },
    ...(partial ? { partial } : { turnComplete: true }),
    ...frameOf(asked, asked.session.appName),
  }
}

function frameOf({ invocationId, customMetadata }: Asked, author: string): object {
  return {
    invocationId,
    author,
    actions: { stateDelta: {}, artifactDelta: {}, requestedAuthConfigs: {}, requestedToolConfirmations: {} },
    ...(customMetadata === undefined ? {} : { customMetadata }),
    id: randomUUID(),
    timestamp: Date.now() / 1_000,
  }
}

function unknownAgent(app: string): Refusal {
  return new Refusal(404, `Agent not found: '${app}'`)
}
