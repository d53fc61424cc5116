/** A receiver of webhooks on a free port: writes down what arrives and answers as a test asks, well or badly. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

/** One request that arrived in full. */
export interface Received {
  path: string
  headers: Record<string, string>
  body: Buffer
  /** X-Sequence, X-Attempt; NaN when absent. */
  sequence: number
  attempt: number
  /** X-Previous-Sequence; null when absent. */
  previous: number | null
  idempotencyKey: string
  replay: boolean
  /** Milliseconds of `performance.now()` when it was complete. */
  at: number
  /** Number of the connection that it came over, from 1. */
  connection: number
  /** The status that was answered in full; null while it is not, or never will be. */
  status: number | null
}

export type Answer =
  /** An ordinary answer; 204 without a status. */
  | {
      status?: number
      headers?: Record<string, string>
      body?: string | Buffer
      afterMs?: number
      /** Closes the connection behind the answer. */
      hangUp?: boolean
    }
  /** Never answers. */
  | { hang: true }
  /** Resets the connection without an answer. */
  | { reset: true }
  /** Sends the head at once and then one byte of the body each time this many ms have passed, for ever. */
  | { dripMs: number; status?: number }
  /** Sends the head and then this many bytes as fast as they are taken. */
  | { floodBytes: number; status?: number }
  /** Bytes that are no HTTP. */
  | { garbage: string }

export interface WebhookSink {
  /** Stays the same over `down` and `up`. */
  readonly url: string
  readonly received: Received[]
  /** Asked for each request; may be replaced at any time. */
  answer: (request: Received) => Answer
  /** Most requests that were being answered at once, and now. */
  readonly inFlightMax: number
  readonly inFlight: number
  /** Connections that were opened so far. */
  readonly connections: number
  /** Each X-Sequence that was answered with 2xx the first time, in the order of arrival (replays left out). */
  firstSuccesses(): number[]
  /** Refuses connections, and drops those that are open. */
  down(): Promise<void>
  /** Listens again on the same port. */
  up(): Promise<void>
  /** Drops the received deliveries. */
  forget(): void
  close(): Promise<void>
}

export async function openWebhookSink(answer: WebhookSink['answer'] = () => ({})): Promise<WebhookSink> {
  const sink = new Sink(answer)
  await sink.up()
  return sink
}

class Sink implements WebhookSink {
  readonly received: Received[] = []
  answer: WebhookSink['answer']
  inFlightMax = 0
  inFlight = 0
  connections = 0
  #port = 0
  #server: Server | null = null
  readonly #numbers = new WeakMap<Socket, number>()

  constructor(answer: WebhookSink['answer']) {
    this.answer = answer
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/hook`
  }

  firstSuccesses(): number[] {
    const seen = new Set<number>()
    for (const { status, sequence, replay } of this.received) {
      if (!replay && status !== null && status >= 200 && status < 300) seen.add(sequence)
    }
    return [...seen]
  }

  async up(): Promise<void> {
    if (this.#server) return
    const server = createServer((request, response) => void this.#receive(request, response))
    // A test's pause must not end a connection that the sender would keep.
    server.keepAliveTimeout = 60_000
    server.on('connection', (socket) => {
      this.#numbers.set(socket, ++this.connections)
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

  forget(): void {
    this.received.length = 0
    this.inFlightMax = this.inFlight
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer)
    } catch {
      return
    }
    const received = describe(request, Buffer.concat(chunks), this.#numbers.get(request.socket) ?? 0)
    this.received.push(received)
    this.inFlightMax = Math.max(this.inFlightMax, ++this.inFlight)
    response.once('close', () => this.inFlight--)
    respond(received, this.answer(received), response)
  }
}

function describe({ headers, url }: IncomingMessage, body: Buffer, connection: number): Received {
  const text = headers as Record<string, string>
  const previous = text['x-previous-sequence']
  return {
    path: url ?? '',
    headers: text,
    body,
    sequence: Number(text['x-sequence'] ?? Number.NaN),
    attempt: Number(text['x-attempt'] ?? Number.NaN),
    previous: previous === undefined ? null : Number(previous),
    idempotencyKey: text['x-idempotency-key'] ?? '',
    replay: text['x-webhook-replay'] === 'true',
    at: performance.now(),
    connection,
    status: null,
  }
}

function respond(received: Received, answer: Answer, response: ServerResponse): void {
  if ('hang' in answer) return
  if ('reset' in answer) return void response.socket?.resetAndDestroy()
  if ('garbage' in answer) return void response.socket?.end(answer.garbage)
  if ('dripMs' in answer) return void drip(answer.dripMs, answer.status ?? 200, response)
  if ('floodBytes' in answer) return void flood(received, answer, response)
  const { status = 204, headers = {}, body = '', afterMs = 0, hangUp = false } = answer
  const send = () => {
    if (response.destroyed) return
    received.status = status
    response.writeHead(status, hangUp ? { ...headers, connection: 'close' } : headers)
    response.end(body)
  }
  if (afterMs > 0) setTimeout(send, afterMs)
  else send()
}

function drip(everyMs: number, status: number, response: ServerResponse): void {
  response.writeHead(status, { 'content-type': 'text/plain' })
  const timer = setInterval(() => response.write('.'), everyMs)
  response.once('close', () => clearInterval(timer))
}

function flood(
  received: Received,
  { floodBytes, status = 200 }: { floodBytes: number; status?: number },
  response: ServerResponse,
): void {
  received.status = status
  response.writeHead(status, { 'content-type': 'application/octet-stream' })
  const chunk = Buffer.alloc(65_536, 120)
  let left = floodBytes
  const more = () => {
    while (left > 0 && !response.destroyed) {
      left -= chunk.length
      if (!response.write(chunk)) return void response.once('drain', more)
    }
    response.end()
  }
  more()
}
