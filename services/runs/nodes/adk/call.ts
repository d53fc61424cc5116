/** Runs an agent at its node through the protocol of ADK's api_server, in the dialects of Python and TypeScript. */

import type { Dispatcher } from 'undici'
import type { RunEvent } from '../../state/types.ts'
import { type CallNode, type NodeCall, NodeFault } from '../types.ts'
import { beginningOf, createConnections, type SendToNode } from './connections.ts'
import { cutEvent, eventOf } from './events.ts'
import { brokenCall, refusedRun } from './faults.ts'
import { cleanerFor } from './node-text.ts'
import { createNodeSessions, type NodeSessions } from './sessions.ts'
import { SseFrames } from './sse-frames.ts'

const refusalBytesMax = 64 * 1024

/** `send` is of tests. */
export function createCallNode(send: SendToNode = createConnections()): CallNode {
  const sessions = createNodeSessions(send)
  return async function* callNode(call) {
    const { node, runId, signal } = call
    signal.throwIfAborted()
    try {
      const body = await begin(send, sessions, call)
      yield* eventsOf(body, { runId, codename: node.codename }, cleanerFor(node))
    } catch (error) {
      throw signal.aborted ? signal.reason : brokenCall(error)
    }
  }
}

/** The one of this process: connections and what is known of sessions serve all runs. */
export const callNode: CallNode = createCallNode()

type Body = Dispatcher.ResponseData['body']

/** Sends the run; a node that has forgotten its session gets it once again. */
async function begin(send: SendToNode, sessions: NodeSessions, call: NodeCall): Promise<Body> {
  await sessions.ensure(call)
  const first = await sendRun(send, call)
  if ('body' in first) return first.body
  if (!first.isSessionMissing) throw refusedRun(first.status)
  sessions.forget(call)
  await sessions.ensure(call)
  const second = await sendRun(send, call)
  if ('body' in second) return second.body
  throw refusedRun(second.status)
}

async function sendRun(
  send: SendToNode,
  call: NodeCall,
): Promise<{ body: Body } | { status: number; isSessionMissing: boolean }> {
  const { node, userId, sessionId, newMessage, streaming, stateDelta, customMetadata, traceparent, signal } =
    call
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
  if (statusCode === 200 && /^text\/event-stream\b/i.test(type)) return { body }
  const text = (await beginningOf(body, refusalBytesMax)).toString('utf8')
  if (statusCode === 200)
    throw new NodeFault('agent_error', 'The node answered with something that is no stream of events.')
  return { status: statusCode, isSessionMissing: statusCode === 404 && /session not found/i.test(text) }
}

async function* eventsOf(
  body: Body,
  owner: { runId: string; codename: string },
  clean: (text: string) => string,
): AsyncGenerator<RunEvent> {
  const frames = new SseFrames()
  for await (const chunk of body as AsyncIterable<Buffer>) {
    for (const frame of frames.push(chunk)) {
      yield 'bytes' in frame ? cutEvent(frame.bytes, owner) : eventOf(frame.data, owner, clean)
    }
  }
}
