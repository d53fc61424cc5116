/** A node over HTTP: speaks the protocol of ADK's api_server for the agents behind it, each an app of its own. */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { type FastifyInstance, type FastifyReply, fastify } from 'fastify'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { withoutSeparators } from '#lib/terminal-text.ts'
import {
  checkCaller,
  createSessions,
  type NodeSession,
  objectOf,
  Refusal,
  type RunRequest,
  readRun,
  type Sessions,
  textOf,
} from './requests.ts'
import type { NodeAgent, Said } from './roster.ts'

/** As the run gateway sends at most, and context. */
const bodyBytesMax = 3 * 1024 * 1024
const connectionsMax = 500
const runsMax = 100
const receiveMs = 30_000
/** Longer than callers keep theirs, so that they do not send into one that closes. */
const keepAliveMs = 65_000
/** Longest id in a path, encoded. */
const idLengthMax = 8_192

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
  /** Runs at once. */
  running: number
}

/** Throws what the system says when the port is taken. */
export async function openNodeServer(options: NodeServerOptions): Promise<NodeServer> {
  const { host, port } = options
  const serving: Serving = { ...options, sessions: createSessions(), running: 0 }
  const app = fastify({
    bodyLimit: bodyBytesMax,
    requestTimeout: receiveMs,
    keepAliveTimeout: keepAliveMs,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: idLengthMax },
  })
  app.server.maxConnections = connectionsMax
  registerRefusals(app, serving)
  app.get('/health', () => ({ status: 'ok' }))
  app.get('/version', () => ({
    version: version(),
    language: 'typescript',
    language_version: process.versions.node,
  }))
  app.get('/list-apps', ({ query }) => appsOf(serving, (query as { detailed?: string }).detailed === 'true'))
  registerSessions(app, serving)
  registerRuns(app, serving)
  await app.listen({ host, port })
  const address = app.server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`,
    // It closes the connections: so runs end, and their callers see that they were not completed.
    close: () => app.close(),
  }
}

/** Who may ask, bodies of any type, and refusals as ADK words them. */
function registerRefusals(app: FastifyInstance, { token }: Serving): void {
  app.addHook('onRequest', async ({ routeOptions, headers }) => {
    if (routeOptions.url !== '/health') checkCaller(token, headers)
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => {
    try {
      done(null, body === '' ? {} : JSON.parse(body as string))
    } catch {
      done(new Refusal(422, 'The body is not JSON.'))
    }
  })
  app.setNotFoundHandler(() => {
    throw new Refusal(404, 'Not Found')
  })
  app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) => {
    const { statusCode = 500 } = error
    return reply
      .code(statusCode)
      .send({ detail: statusCode === 500 ? 'Internal Server Error' : error.message })
  })
}

function appsOf({ agents }: Serving, detailed: boolean): unknown {
  if (!detailed) return [...agents.keys()]
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

interface SessionParams {
  app: string
  user: string
  id?: string
}

function registerSessions(app: FastifyInstance, { agents, sessions }: Serving): void {
  const all = '/apps/:app/users/:user/sessions'
  const one = `${all}/:id` as const
  for (const url of [all, one]) {
    app.post<{ Params: SessionParams }>(url, ({ params, body }) => {
      if (!agents.has(params.app)) throw unknownAgent(params.app)
      const given = objectOf(body)
      const id = params.id ?? textOf(given.sessionId ?? given.session_id)
      const made = sessions.create(params.app, params.user, id, objectOf(given.state))
      if (made === null) throw new Refusal(409, `Session already exists: ${id}`)
      return made
    })
  }
  app.get<{ Params: Required<SessionParams> }>(one, ({ params }) => {
    const found = sessions.get(params.app, params.user, params.id)
    if (!found) throw new Refusal(404, 'Session not found')
    return found
  })
  app.delete<{ Params: Required<SessionParams> }>(one, ({ params }, reply) => {
    sessions.delete(params.app, params.user, params.id)
    return reply.type('application/json').send('null')
  })
}

function registerRuns(app: FastifyInstance, serving: Serving): void {
  app.post('/run', async ({ body }, reply) => {
    const events: object[] = []
    for await (const event of eventsOf(serving, admit(serving, body), reply)) events.push(event)
    return events
  })
  app.post('/run_sse', ({ body }, reply) => {
    const frames = Readable.from(framesOf(eventsOf(serving, admit(serving, body), reply)))
    return reply.type('text/event-stream; charset=utf-8').header('cache-control', 'no-store').send(frames)
  })
}

/** A run that may begin. */
interface Asked extends RunRequest {
  agent: NodeAgent
  session: NodeSession
  invocationId: string
}

function admit({ agents, sessions, running }: Serving, body: unknown): Asked {
  const run = readRun(objectOf(body))
  const agent = agents.get(run.app)
  if (!agent) throw unknownAgent(run.app)
  const session = sessions.get(run.app, run.userId, run.sessionId)
  if (!session) throw new Refusal(404, `Session not found: ${run.sessionId}`)
  if (running >= runsMax) throw new Refusal(503, 'Too many runs at once.')
  Object.assign(session.state, run.stateDelta)
  return { ...run, agent, session, invocationId: `e-${randomUUID()}` }
}

async function* framesOf(events: AsyncIterable<object>): AsyncGenerator<string> {
  try {
    for await (const event of events) yield frameOf(event)
  } catch (error) {
    const details = { error_type: 'AgentError', error_message: describeError(error) }
    yield frameOf({ error: describeError(error), error_details: details })
  }
}

function frameOf(value: object): string {
  return `data: ${withoutSeparators(JSON.stringify(value))}\n\n`
}

/** A caller that closes its connection cancels the run. */
async function* eventsOf(serving: Serving, asked: Asked, reply: FastifyReply): AsyncGenerator<object> {
  const { agent, session, texts, customMetadata = {} } = asked
  const { sessions, onFault } = serving
  const gone = new AbortController()
  serving.running++
  reply.raw.once('close', () => gone.abort())
  const message = { texts, userId: session.userId, sessionId: session.id, customMetadata }
  try {
    sessions.add(session, {
      ...commonOf(asked, 'user'),
      content: { role: 'user', ...asked.message, parts: asked.kept },
    })
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
    serving.running--
  }
}

function eventOf(asked: Asked, { text, partial }: Said): object {
  return {
    content: { parts: [{ text }], role: 'model' },
    ...(partial ? { partial } : { turnComplete: true }),
    ...commonOf(asked, asked.session.appName),
  }
}

function commonOf({ invocationId, customMetadata }: Asked, author: string): object {
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
