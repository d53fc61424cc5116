/**
 * The connections to nodes: kept open between calls, bounded in time wherever a signal does not reach; and what a failed call means
 * for its run. Sessions are made, and nodes probed, over them. The texts of undici and the system may hold addresses: none is shown.
 */

import { hash } from 'node:crypto'
import { Agent, type Dispatcher } from 'undici'
import { unlessAborted } from '#lib/backoff.ts'
import { createLru } from '#lib/lru.ts'
import { pathPart } from '#lib/path-part.ts'
import { type NodeCalls, NodeFault, type NodeSession, type RunNode } from '../nodes.ts'

/** Resolving, connecting and TLS. */
const connectMs = 3_000
/** Shorter than the five seconds of uvicorn, so that a request seldom meets a connection that is being closed. */
const idleMs = 4_000
/** Behind the limit of a run: the dispatcher ends it first. */
const beyondRunMs = 10_000

interface NodeRequest {
  method: 'GET' | 'POST' | 'DELETE'
  /** Below the node's url, encoded. */
  path: string
  body?: object
  /** Until the head of the answer, and between pieces of its body; default: the time of a run. */
  silenceMs?: number
  traceparent?: string | undefined
  signal?: AbortSignal
}

export type SendToNode = (node: RunNode, request: NodeRequest) => Promise<Dispatcher.ResponseData>

/** Redirects are not followed: they would carry the node's headers elsewhere. */
export function createConnections(): SendToNode {
  const agent = new Agent({
    connect: { timeout: connectMs, autoSelectFamily: true },
    keepAliveTimeout: idleMs,
  })
  return (node, { method, path, body, silenceMs = node.timeoutMs + beyondRunMs, traceparent, signal }) => {
    const { origin, pathname } = new URL(node.url)
    return agent.request({
      origin,
      // Not by URL: it would fold what looks like `..`, and the node's headers went to another place.
      path: `${pathname.replace(/\/$/, '')}${path}`,
      method,
      headers: {
        ...node.headers,
        ...(body ? { 'content-type': 'application/json' } : {}),
        ...(traceparent === undefined ? {} : { traceparent }),
      },
      body: body ? JSON.stringify(body) : null,
      headersTimeout: silenceMs,
      bodyTimeout: silenceMs,
      signal: signal ?? null,
    })
  }
}

/** Reads the beginning of an answer and lets go of the rest. */
export async function beginningOf(body: Dispatcher.ResponseData['body'], bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > bytesMax) break
  }
  return Buffer.concat(chunks)
}

/** The request never reached the node. */
const unsentCodes: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
])
/** The codes of OpenSSL for certificates have no common prefix. */
const tlsCodes = /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|EPROTO|HOSTNAME_)/

/** Fault of a call that started no run, however it failed. */
export function unavailable(error: unknown): NodeFault {
  if (error instanceof NodeFault) return error
  const code = codeOf(error)
  return new NodeFault('unavailable', `The node does not answer (${reasons[code] ?? code}).`)
}

/** Fault of a call that may have started the run. */
export function brokenCall(error: unknown): NodeFault {
  if (error instanceof NodeFault) return error
  const code = codeOf(error)
  return unsentCodes.has(code) || tlsCodes.test(code)
    ? unavailable(error)
    : new NodeFault('lost', `The connection to the node ended before its answer did (${code}).`)
}

/** Fault of an answer that is not a stream of events. */
export function refusedRun(status: number): NodeFault {
  const message = `The node answered HTTP ${status}.`
  // 4xx of the address or credential, too many requests, and proxies in front of the node.
  const neverBegan = status < 400 || [401, 403, 404, 405, 408, 421, 425, 429, 502, 503, 504].includes(status)
  return new NodeFault(neverBegan ? 'unavailable' : 'agent_error', message)
}

/** Codes of failed connections that people meet, in words. */
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ENOTFOUND: 'unknown host name',
  EAI_AGAIN: 'the host name cannot be looked up now',
  ETIMEDOUT: 'no connection in time',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  TimeoutError: 'no answer in time',
}

function codeOf(error: unknown): string {
  // Several addresses were tried: they mostly fail in the same way.
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0])
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  return typeof code === 'string' && /^\w{1,40}$/.test(code) ? code : String(name ?? 'unknown').slice(0, 40)
}

const probeMs = 2_000
const appsBytesMax = 1024 * 1024

export function createProbeNode(send: SendToNode): NodeCalls['probeNode'] {
  /** Probes in flight, by address and headers: a server of many agents is probed once. */
  const asking = new Map<string, Promise<string>>()

  async function ask(node: RunNode, signal: AbortSignal): Promise<string> {
    const within = AbortSignal.any([signal, AbortSignal.timeout(probeMs)])
    const request = { method: 'GET', path: '/list-apps', silenceMs: probeMs, signal: within } as const
    const { statusCode, body } = await send(node, request)
    const text = (await beginningOf(body, appsBytesMax)).toString('utf8')
    if (statusCode !== 200) throw new NodeFault('unavailable', `The node answered HTTP ${statusCode}.`)
    return text
  }

  return async function probeNode(node, signal) {
    const server = JSON.stringify([node.url, node.headers])
    try {
      let answer = asking.get(server)
      if (!answer) {
        answer = ask(node, signal).finally(() => asking.delete(server))
        asking.set(server, answer)
      }
      if (!servesApp(await answer, node.app)) {
        throw new NodeFault('unavailable', `The node has no app ${node.app}.`)
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : unavailable(error)
    }
  }
}

function servesApp(text: string, app: string): boolean {
  try {
    const apps: unknown = JSON.parse(text)
    return Array.isArray(apps) && apps.includes(app)
  } catch {
    return false
  }
}

const knownMax = 100_000
/** Sessions that are made ahead of their runs at once, so that a node that hangs keeps few requests open. */
const aheadMax = 100
const createMs = 10_000
const answerBytesMax = 64 * 1024

export type NodeSessions = ReturnType<typeof createNodeSessions>

/** Makes the session of a run at its node, unless this process knows that it is there. */
export function createNodeSessions(send: SendToNode) {
  // Keys are hashes: user and session ids may be long.
  const known = createLru<string, true>(knownMax)
  // No more than runs of this dispatcher, and those ahead.
  const making = new Map<string, Promise<void>>()

  function make(key: string, of: NodeSession): Promise<void> {
    const made = making.get(key) ?? create(key, of).finally(() => making.delete(key))
    making.set(key, made)
    return made
  }

  async function create(key: string, { node, userId, sessionId }: NodeSession): Promise<void> {
    const sessions = `/apps/${pathPart(node.app)}/users/${pathPart(userId)}/sessions`
    // Both dialects take an id in the path; Python alone takes it in the body, which an id with a slash needs.
    const inPath = { path: `${sessions}/${pathPart(sessionId)}`, body: {} }
    const inBody = { path: sessions, body: { sessionId } }
    const ways = sessionId.includes('/') ? [inBody] : [inPath, inBody]
    let status = 0
    for (const { path, body } of ways) {
      status = await post(node, path, body)
      // 409: it is there already.
      if ((status >= 200 && status < 300) || status === 409) {
        known.set(key, true)
        return
      }
      if (status !== 404 && status !== 405) break
    }
    throw noSession(status)
  }

  /** Its time is bounded by itself: those who wait for it may come and go. */
  async function post(node: RunNode, path: string, body: object): Promise<number> {
    try {
      const answer = await send(node, { method: 'POST', path, body, silenceMs: createMs })
      // The status says it all; the rest is read so that the connection can be used again.
      beginningOf(answer.body, answerBytesMax).catch(() => {})
      return answer.statusCode
    } catch (error) {
      throw unavailable(error)
    }
  }

  return {
    /** Begins to make the session of a run that may be called in a moment; `ensure` waits for it, and says where it fails. */
    prepare(of: NodeSession): void {
      const key = keyOf(of)
      if (known.get(key) || making.size >= aheadMax) return
      make(key, of).catch(() => {})
    },
    /** Throws NodeFault when there is none and none can be made (`agent_error`: it never will), or the signal's reason. */
    async ensure(of: NodeSession, signal: AbortSignal): Promise<void> {
      const key = keyOf(of)
      if (!known.get(key)) await unlessAborted(make(key, of), signal)
    },
    /** The node says that it does not know the session. */
    forget: (of: NodeSession) => void known.delete(keyOf(of)),
  }
}

/** What it says about this session does not change by asking again; ADK's paths, for one, take no user id with a slash. */
function noSession(status: number): NodeFault {
  if ([400, 404, 405, 413, 414, 422].includes(status)) {
    return new NodeFault(
      'agent_error',
      `The node makes no session with this user id and session id (HTTP ${status}).`,
    )
  }
  return new NodeFault('unavailable', `The node makes no session (HTTP ${status}).`)
}

function keyOf({ node, userId, sessionId }: NodeSession): string {
  return hash('sha256', JSON.stringify([node.url, node.app, userId, sessionId]), 'base64')
}
