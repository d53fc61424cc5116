/** Makes the HTTP calls to one target over one kept connection, each within five seconds, and says how each ended. */

import type { LookupFunction } from 'node:net'
import { Client } from 'undici'
import { deadlines } from '#lib/deadlines.ts'
import { CallError, callFaultOf } from './call-fault.ts'
import type { CallFault, CallResult } from './verdict.ts'

/** Resolving, connecting, TLS, headers and body together. */
export const callMs = deadlines.webhookCallMs
/** More of an answer is not read: the connection is dropped instead. */
const answerBytesMax = 64 * 1024
/** Without a hint of the target's own: shorter than most servers wait, so that a request seldom meets a closed end. */
const idleMs = 4_000

export interface ConnectionOptions {
  url: URL
  lookup: LookupFunction
  /** Default `callMs`. */
  callMs?: number
}

export interface Request {
  /** Names and values in turn. */
  headers: string[]
  body: Buffer
  /** Ends the call at once, with the fault `stopped`. */
  signal?: AbortSignal
}

export class Connection {
  readonly #options: ConnectionOptions
  readonly #path: string
  readonly #callMs: number
  #client: Client | null = null
  #busy = false
  /** The signal of the latest call. One listener serves all calls that have the same: to add one for each takes long. */
  #signal: AbortSignal | undefined
  readonly #stop = () => this.stop()
  #closed = false
  /** One for all calls: it begins again with each. */
  readonly #clock: NodeJS.Timeout

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#callMs = options.callMs ?? callMs
    this.#clock = setTimeout(() => this.#end('timeout'), this.#callMs).unref()
    this.#path = `${options.url.pathname}${options.url.search}`
  }

  get busy(): boolean {
    return this.#busy
  }

  /** Never rejects. One at a time: a second request is never sent behind the first. */
  async send({ headers, body, signal }: Request): Promise<CallResult> {
    const startedAt = performance.now()
    const client = this.#open()
    this.#clock.refresh()
    this.#listenTo(signal)
    this.#busy = true
    let answer: Answer
    try {
      if (signal?.aborted) throw new CallError('stopped')
      answer = await post(client, { path: this.#path, headers, body })
    } catch (error) {
      answer = { ...noAnswer, fault: callFaultOf(error) }
    }
    this.#busy = false
    // Whatever is left of the call ends with its connection.
    if (!answer.reusable || this.#closed) this.#drop(client)
    const { status, fault, retryAfter, location } = answer
    return { status, fault, retryAfter, location, tookMs: performance.now() - startedAt }
  }

  /** Ends the call that runs, with the fault `stopped`. */
  stop(): void {
    this.#end('stopped')
  }

  /** A call that runs may end; no other will come. */
  close(): void {
    this.#closed = true
    if (!this.#busy && this.#client) this.#drop(this.#client)
  }

  /** undici's own time-outs and signals begin after connecting: to destroy the client ends a call at any point. */
  #end(fault: CallFault): void {
    if (this.#busy && this.#client) destroy(this.#client, new CallError(fault))
  }

  #listenTo(signal: AbortSignal | undefined): void {
    if (signal === this.#signal) return
    this.#signal?.removeEventListener('abort', this.#stop)
    this.#signal = signal
    signal?.addEventListener('abort', this.#stop)
  }

  #open(): Client {
    if (this.#client) return this.#client
    const { url, lookup } = this.#options
    this.#client = new Client(url.origin, {
      pipelining: 1,
      keepAliveTimeout: idleMs,
      // The clock of the call is the only one.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { lookup, timeout: this.#callMs, autoSelectFamily: true },
    })
    return this.#client
  }

  #drop(client: Client): void {
    if (this.#client === client) this.#client = null
    this.#listenTo(undefined)
    destroy(client, null)
  }
}

interface Answer extends Omit<CallResult, 'tookMs'> {
  /** It was read to its end: the connection can take another request. */
  reusable: boolean
}

const noAnswer: Answer = { status: null, fault: null, retryAfter: null, location: null, reusable: false }

/**
 * The status counts once the answer is whole, or longer than anyone reads. Redirects are not followed. By undici's
 * dispatch (its documentation: Dispatcher, "Parameter: DispatchHandler"), because a stream for every answer of a few
 * bytes takes longer than all else of a call.
 */
function post(client: Client, request: { path: string; headers: string[]; body: Buffer }): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  let answer = noAnswer
  let bytes = 0
  client.dispatch(
    { ...request, method: 'POST' },
    {
      onRequestStart() {},
      onResponseStart(_, status, headers) {
        const retryAfter = first(headers['retry-after'])
        answer = { status, fault: null, retryAfter, location: first(headers.location), reusable: true }
      },
      onResponseData(_, chunk) {
        bytes += chunk.length
        if (bytes > answerBytesMax) resolve({ ...answer, reusable: false })
      },
      onResponseEnd: () => resolve(answer),
      onResponseError: (_, error) => reject(error),
    },
  )
  return promise
}

function first(header: string | string[] | undefined): string | null {
  return (Array.isArray(header) ? header[0] : header) ?? null
}

/** A request that runs on the client fails with `error`. */
function destroy(client: Client, error: Error | null): void {
  client.destroy(error).catch(() => {})
}
