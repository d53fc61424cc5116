/**
 * Runs an agent at its node through the protocol of ADK's api_server, in the dialects of Python and TypeScript; where tracing is on
 * within a client span, whose context goes to the node.
 */

import { type Span, SpanKind } from '@opentelemetry/api'
import type { Dispatcher } from 'undici'
import { sleep } from '#lib/backoff.ts'
import { endSpan, faultOf, noTracing, type Tracing, traceparentOf } from '#runtime/observe/tracing/tracing.ts'
import { type RunEvent, spokenText } from '../../state/types.ts'
import { type NodeCall, type NodeCalls, NodeFault, type RunNode } from '../nodes.ts'
import {
  beginningOf,
  brokenCall,
  createConnections,
  createNodeSessions,
  createProbeNode,
  type NodeSessions,
  refusedRun,
  type SendToNode,
} from './connections.ts'
import { cutEvent, type EventOwner, eventBytesMax, eventOf, joinedEvent } from './events.ts'
import { SseFrames } from './sse-frames.ts'

const lengthMax = 500
const secretLengthMin = 8
const cut = '[cut]'

/** Folders and files, in the ways of POSIX and Windows. */
const path = /(?<![\w/:.-])(?:~?\/|\.{1,2}\/|[A-Za-z]:[\\/])[^\s'"`()<>,;]+/g

function cleanerFor({ headers }: RunNode): (text: string) => string {
  const secrets = Object.values(headers)
    .flatMap((value) => [value, value.split(' ').at(-1) as string])
    .filter((value) => value.length >= secretLengthMin)
  return (text) => {
    const line = text
      .trimStart()
      .split(/[\r\n]/, 1)[0]!
      .slice(0, 4 * lengthMax)
    let clean = line.replace(path, cut)
    for (const secret of secrets) clean = clean.replaceAll(secret, cut)
    const shown = clean.replaceAll('\0', '').toWellFormed().trim()
    return shown.length > lengthMax
      ? `${shown.slice(0, lengthMax - 1).toWellFormed()}…`
      : shown || 'The agent failed.'
  }
}

const refusalBytesMax = 64 * 1024
const afterTurnMs = 10_000

/** `afterMs`: how long to wait for more behind the end of the turn. */
export function createNodeCalls(tracing = noTracing, afterMs = afterTurnMs): NodeCalls {
  const send = createConnections()
  const sessions = createNodeSessions(send)
  return {
    prepareSession: sessions.prepare,
    probeNode: createProbeNode(send),
    async *callNode(call) {
      const { node, runId, signal } = call
      const span = beginSpan(tracing, call)
      try {
        signal.throwIfAborted()
        const body = await begin(send, sessions, call, traceparentOf(span))
        // The node has it; a run may take minutes, and a message a mebibyte.
        call.newMessage = { parts: [] }
        yield* eventsOf(body, { runId, codename: node.codename }, cleanerFor(node), afterMs)
      } catch (error) {
        const fault = signal.aborted ? signal.reason : brokenCall(error)
        endSpan(span, fault instanceof NodeFault ? fault.kind : faultOf(fault))
        throw fault
      } finally {
        // Also where nobody reads on.
        endSpan(span)
      }
    },
  }
}

function beginSpan(tracing: Tracing, { node, runId }: NodeCall): Span {
  const { hostname, port } = new URL(node.url)
  return tracing.beginChild(`invoke_agent ${node.codename}`, {
    kind: SpanKind.CLIENT,
    attributes: {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': node.codename,
      'server.address': hostname,
      ...(port === '' ? {} : { 'server.port': Number(port) }),
      'flotilla.run_id': runId,
    },
  })
}

type Body = Dispatcher.ResponseData['body']

/** Sends the run; a node that has forgotten its session gets it once again. */
async function begin(
  send: SendToNode,
  sessions: NodeSessions,
  call: NodeCall,
  traceparent: string | undefined,
): Promise<Body> {
  for (let isAgain = false; ; isAgain = true) {
    await sessions.ensure(call, call.signal)
    const answer = await sendRun(send, call, traceparent)
    if ('body' in answer) return answer.body
    if (isAgain || !answer.isSessionMissing) throw refusedRun(answer.status)
    sessions.forget(call)
  }
}

async function sendRun(
  send: SendToNode,
  call: NodeCall,
  traceparent: string | undefined,
): Promise<{ body: Body } | { status: number; isSessionMissing: boolean }> {
  const { node, userId, sessionId, newMessage, streaming, stateDelta, customMetadata, signal } = call
  const answer = await send(node, {
    method: 'POST',
    path: '/run_sse',
    body: {
      appName: node.app,
      userId,
      sessionId,
      newMessage,
      streaming,
      ...(stateDelta ? { stateDelta } : {}),
      ...(customMetadata ? { customMetadata } : {}),
    },
    traceparent,
    signal,
  })
  const { statusCode, headers, body } = answer
  const type = String(headers['content-type'] ?? '')
  const encoding = String(headers['content-encoding'] ?? 'identity').toLowerCase()
  if (statusCode === 200 && encoding !== 'identity') {
    await beginningOf(body, refusalBytesMax)
    throw new NodeFault('agent_error', 'The node sends its events in an encoding that was not asked for.')
  }
  if (statusCode === 200 && /^text\/event-stream\b/i.test(type)) return { body }
  const text = (await beginningOf(body, refusalBytesMax)).toString('utf8')
  if (statusCode === 200)
    throw new NodeFault('agent_error', 'The node answered with something that is no stream of events.')
  return { status: statusCode, isSessionMissing: statusCode === 404 && /session not found/i.test(text) }
}

async function* eventsOf(
  body: Body,
  owner: EventOwner,
  clean: (text: string) => string,
  afterMs: number,
): AsyncGenerator<RunEvent> {
  const frames = new SseFrames()
  const pieces = new Pieces()
  let overAt = Number.POSITIVE_INFINITY
  // Some nodes leave the answer open behind the last event, and some keep it alive with comments.
  for await (const chunk of until(body, () => overAt)) {
    for (const frame of frames.push(chunk)) {
      const event = 'bytes' in frame ? cutEvent(frame.bytes, owner) : eventOf(frame.data, owner, clean)
      const said = pieces.before(event)
      if (said !== '') yield joinedEvent(said, owner)
      yield event
      const isTurnOver = event.turnComplete === true && !event.partial
      overAt = isTurnOver ? performance.now() + afterMs : Number.POSITIVE_INFINITY
    }
  }
  const said = pieces.take()
  if (said !== '') yield joinedEvent(said, owner)
  // A proxy may end the answer of a node that died as if it were whole.
  if (frames.isCut) throw new NodeFault('lost', 'The answer of the node ended within an event.')
}

/** Chunks until the end, or until the moment that `overAt` says last (performance.now; infinite: however long it takes). */
async function* until(body: Body, overAt: () => number): AsyncGenerator<Buffer> {
  const chunks: AsyncIterator<Buffer> = body[Symbol.asyncIterator]()
  const read = new AbortController()
  // Letting go of an answer that goes on is a fault to undici, and none here.
  body.on('error', () => {})
  try {
    for (;;) {
      const next = chunks.next()
      const ms = overAt() - performance.now()
      const chunk = Number.isFinite(ms) ? await Promise.race([next, sleep(ms, read.signal)]) : await next
      // Pending reads fail with the body.
      if (!chunk) next.catch(() => {})
      if (!chunk || chunk.done) return
      yield chunk.value
    }
  } finally {
    // A reason that nobody asks for: the default one is an error with its stack, for every call.
    read.abort(null)
    body.destroy()
  }
}

/**
 * Text that came in pieces and has not come as a whole. Where a model stops at its limit of tokens, or breaks off, no whole
 * follows: then the pieces together are what it said.
 */
class Pieces {
  #texts: string[] = []
  #length = 0

  /** The text that no whole will follow, since this event says that something broke off. */
  before({ partial, content, errorCode }: RunEvent): string {
    const text = content ? spokenText(content) : ''
    if (partial) this.#keep(text)
    else if (text !== '') this.take()
    else if (errorCode) return this.take()
    return ''
  }

  take(): string {
    const text = this.#texts.join('')
    this.#texts = []
    this.#length = 0
    return text
  }

  /** One event cannot hold more. */
  #keep(text: string): void {
    if (text === '' || this.#length > eventBytesMax) return
    this.#texts.push(text)
    this.#length += text.length
  }
}
