/** The connections to nodes: kept open between calls, and bounded in time wherever a caller's signal does not reach. */

import { Agent, type Dispatcher } from 'undici'
import type { RunNode } from '../types.ts'

/** Resolving, connecting and TLS. */
const connectMs = 3_000
/** Shorter than the five seconds of uvicorn, so that a request seldom meets a connection that is being closed. */
const idleMs = 4_000
/** Behind the limit of a run: the dispatcher ends it first. */
const beyondRunMs = 10_000

interface NodeRequest {
  method: 'GET' | 'POST'
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
