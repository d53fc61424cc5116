/** An OpenAI-compatible embeddings endpoint on a free port: deterministic vectors, and faults on demand. */

import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface EmbeddingsServer {
  /** Base address without a path. */
  url: string
  /** Requests that arrived. */
  requests: {
    path: string
    authorization: string | undefined
    input: string[]
    model: string
    dimensions: number | undefined
  }[]
  /** Answers these first, one a request. `hang` never answers. */
  faults: (({ status: number; retryAfter?: string } & { hang?: never }) | { hang: true })[]
  /** Dimensions of any model that `models` does not name. */
  dimensions: number
  /** Dimensions by model. Where it is set, any other model is answered as Ollama and OpenAI do: 404. */
  models: Record<string, { dimensions: number; canShorten: boolean }> | null
  /** Where it is set, a request without it is 401. */
  apiKey: string | null
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
    models: null,
    apiKey: null,
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
  const body = JSON.parse(Buffer.concat(chunks).toString()) as {
    input: string[]
    model: string
    dimensions?: number
  }
  state.requests.push({
    path: request.url ?? '',
    authorization: request.headers.authorization,
    input: body.input,
    model: body.model,
    dimensions: body.dimensions,
  })
  const fault = state.faults.shift() ?? refusal(state, request, body)
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
    embedding: vectorOf(`${body.model}\n${text}`, dimensionsOf(state, body)),
  }))
  if (state.reversed) data.reverse()
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ object: 'list', data, model: body.model, usage: {} }))
}

interface Asked {
  model: string
  dimensions?: number
}

/** As the real ones refuse: an unknown key, an unknown model, `dimensions` for a model that cannot shorten its vectors. */
function refusal(
  state: EmbeddingsServer,
  request: IncomingMessage,
  asked: Asked,
): EmbeddingsServer['faults'][number] | undefined {
  if (state.apiKey !== null && request.headers.authorization !== `Bearer ${state.apiKey}`)
    return { status: 401 }
  if (state.models === null) return undefined
  const model = state.models[asked.model]
  if (!model) return { status: 404 }
  return asked.dimensions !== undefined && !model.canShorten ? { status: 400 } : undefined
}

function dimensionsOf({ models, dimensions }: EmbeddingsServer, asked: Asked): number {
  return asked.dimensions ?? models?.[asked.model]?.dimensions ?? dimensions
}

/** Some vector that is not normalised and depends on the model and the text. */
function vectorOf(text: string, dimensions: number): number[] {
  const hash = createHash('sha256').update(text).digest()
  return Array.from({ length: dimensions }, (_, n) => (hash[n % 32]! - 127.5) * (1 + (n % 7)))
}
