/** An OpenAI-compatible embeddings endpoint on a free port: deterministic vectors, and faults on demand. */

import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface EmbeddingsServer {
  /** Base address without a path. */
  url: string
  /** Requests that arrived: path, authorization, texts, model. */
  requests: { path: string; authorization: string | undefined; input: string[]; model: string }[]
  /** Answers these first, one a request. `hang` never answers. */
  faults: (({ status: number; retryAfter?: string } & { hang?: never }) | { hang: true })[]
  dimensions: number
  /** Gives the vectors in the opposite order, each with its index. */
  reversed: boolean
  close(): Promise<void>
}

export async function openEmbeddingsServer(): Promise<EmbeddingsServer> {
  const server = createServer((request, response) => void answer(state, request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const state: EmbeddingsServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    faults: [],
    dimensions: 1536,
    reversed: false,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return state
}

async function answer(
  state: EmbeddingsServer,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = JSON.parse(Buffer.concat(chunks).toString()) as { input: string[]; model: string }
  state.requests.push({
    path: request.url ?? '',
    authorization: request.headers.authorization,
    input: body.input,
    model: body.model,
  })
  const fault = state.faults.shift()
  if (fault?.hang) return
  if (fault) {
    response.writeHead(
      fault.status,
      fault.retryAfter === undefined ? {} : { 'retry-after': fault.retryAfter },
    )
    response.end(JSON.stringify({ error: { message: 'a text that must not leave' } }))
    return
  }
  const data = body.input.map((text, index) => ({
    object: 'embedding',
    index,
    embedding: vectorOf(text, state.dimensions),
  }))
  if (state.reversed) data.reverse()
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ object: 'list', data, model: body.model, usage: {} }))
}

/** Some vector that is not normalised and depends on the text. */
function vectorOf(text: string, dimensions: number): number[] {
  const hash = createHash('sha256').update(text).digest()
  return Array.from({ length: dimensions }, (_, n) => (hash[n % 32]! - 127.5) * (1 + (n % 7)))
}
