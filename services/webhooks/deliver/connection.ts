/** Makes the HTTP calls to one target over one kept connection, each within five seconds, and names how each ended. */

import type { LookupFunction } from 'node:net'
import { Client, type Dispatcher } from 'undici'
import { deadlines } from '#lib/deadlines.ts'
import { type AnswersConnector, connectPastInterim } from './interim-answers.ts'
import { CallError, type CallFault, type CallResult } from './verdict.ts'

/** Resolving, connecting, TLS, headers and body together. */
const callMs = deadlines.webhookCallMs
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
  readonly #connector: AnswersConnector
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
    const { lookup } = options
    this.#connector = connectPastInterim({ lookup, timeout: this.#callMs, autoSelectFamily: true })
    this.#clock = setTimeout(() => this.#end('timeout'), this.#callMs).unref()
    this.#path = `${options.url.pathname}${options.url.search}`
  }

  get busy(): boolean {
    return this.#busy
  }

  /** Never rejects. One at a time: a second request is never sent behind the first. */
  send({ headers, body, signal }: Request): Promise<CallResult> {
    const client = this.#open()
    this.#clock.refresh()
    this.#listenTo(signal)
    this.#busy = true
    this.#connector.begin()
    return new Promise((resolve) => {
      const call = new Call((result, reusable) => {
        this.#busy = false
        // Whatever is left of the call ends with its connection, but not inside of undici's own work on it.
        if (!reusable || this.#closed) queueMicrotask(() => this.#drop(client))
        resolve(result)
      })
      if (signal?.aborted) call.fail('stopped')
      // Without `blocking` undici looks for the next request once less: there is none before this one's answer.
      else client.dispatch({ path: this.#path, method: 'POST', headers, body, blocking: false }, call)
    })
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
    this.#client = new Client(this.#options.url.origin, {
      pipelining: 1,
      keepAliveTimeout: idleMs,
      // The clock of the call is the only one.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: this.#connector.connect,
    })
    return this.#client
  }

  #drop(client: Client): void {
    if (this.#client === client) this.#client = null
    this.#listenTo(undefined)
    destroy(client, null)
  }
}

/**
 * One call as undici tells of it (its documentation: Dispatcher, "Parameter: DispatchHandler"): a stream for every answer
 * of a few bytes would take longer than all else of a call. The status counts once the answer is whole, or longer than
 * anyone reads. Redirects are not followed.
 */
class Call implements Dispatcher.DispatchHandler {
  readonly #startedAt = performance.now()
  readonly #end: (result: CallResult, reusable: boolean) => void
  #ended = false
  #status: number | null = null
  #retryAfter: string | null = null
  #location: string | null = null
  #bytes = 0

  /** `reusable`: it was read to its end, so that the connection can take another request. */
  constructor(end: (result: CallResult, reusable: boolean) => void) {
    this.#end = end
  }

  /** There is no answer, or no whole one. */
  fail(fault: CallFault): void {
    if (this.#ended) return
    this.#ended = true
    this.#end({ status: null, fault, retryAfter: null, location: null, tookMs: this.#tookMs }, false)
  }

  onRequestStart(): void {}

  onResponseStart(_: unknown, status: number, headers: Headers): void {
    this.#status = status
    this.#retryAfter = first(headers['retry-after'])
    this.#location = first(headers.location)
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > answerBytesMax) this.#answered(false)
  }

  onResponseEnd(): void {
    this.#answered(true)
  }

  onResponseError(_: unknown, error: unknown): void {
    this.fail(callFaultOf(error))
  }

  #answered(reusable: boolean): void {
    if (this.#ended) return
    this.#ended = true
    const [status, retryAfter, location] = [this.#status, this.#retryAfter, this.#location]
    this.#end({ status, fault: null, retryAfter, location, tookMs: this.#tookMs }, reusable)
  }

  get #tookMs(): number {
    return performance.now() - this.#startedAt
  }
}

type Headers = Record<string, string | string[] | undefined>

function first(header: string | string[] | undefined): string | null {
  return (Array.isArray(header) ? header[0] : header) ?? null
}

/** A request that runs on the client fails with `error`. */
function destroy(client: Client, error: Error | null): void {
  client.destroy(error).catch(() => {})
}

const connectCodes: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'EHOSTDOWN',
  'ENETDOWN',
  'EACCES',
  'EPERM',
])
const timeoutCodes: ReadonlySet<string> = new Set(['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT'])
const protocolCodes: ReadonlySet<string> = new Set([
  'UND_ERR_HEADERS_OVERFLOW',
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_RESPONSE',
])
const unsendableCodes: ReadonlySet<string> = new Set([
  'UND_ERR_INVALID_ARG',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
  'ERR_INVALID_CHAR',
])
/** The codes of OpenSSL for certificates have no common prefix. */
const tlsCodes = /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|EPROTO|INVALID_|HOSTNAME_)/

function callFaultOf(error: unknown): CallFault {
  if (error instanceof CallError) return error.fault
  // Several addresses were tried: they mostly fail in the same way.
  if (error instanceof AggregateError && error.errors.length > 0) return callFaultOf(error.errors[0])
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  if (connectCodes.has(code)) return 'connect'
  if (timeoutCodes.has(code)) return 'timeout'
  if (unsendableCodes.has(code)) return 'unsendable'
  if (protocolCodes.has(code) || (error as Error | null)?.name === 'HTTPParserError') return 'protocol'
  if (tlsCodes.test(code)) return 'tls'
  return 'reset'
}
