/** One connection to one target, with one clock for all of a call. */

import type { LookupFunction } from 'node:net'
import { Client, type Dispatcher } from 'undici'
import { CallError, callFaultOf } from './call-fault.ts'
import { joiningConnector } from './joined-writes.ts'
import { sharedReads } from './shared-reads.ts'
import type { CallResult } from './verdict.ts'

/** Resolving, connecting, TLS, headers and body together. */
export const callMs = 5_000
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
  #client: Client | null = null
  #exchange: Exchange | null = null
  readonly #callMs: number
  /** One for all calls: it rings when the first of them would be late, and is wound up again for the one that runs then. */
  #clock: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#callMs = options.callMs ?? callMs
    this.#path = `${options.url.pathname}${options.url.search}`
  }

  get busy(): boolean {
    return this.#exchange !== null
  }

  /** Never rejects. One at a time: a second request is never sent behind the first. */
  send({ headers, body, signal }: Request): Promise<CallResult> {
    const { promise, resolve } = Promise.withResolvers<CallResult>()
    const client = this.#open()
    const exchange = new Exchange((result, reusable) => {
      this.#exchange = null
      // Whatever is left of the call ends with its connection.
      if (!reusable || this.#closed) this.#drop(client)
      resolve(result)
    })
    this.#exchange = exchange
    this.#startClock()
    if (signal?.aborted) exchange.stop()
    else signal?.addEventListener('abort', exchange.stop, { once: true })
    if (exchange.over) return promise
    try {
      client.dispatch({ path: this.#path, method: 'POST', headers, body }, exchange)
    } catch (error) {
      exchange.onError(error)
    }
    return promise
  }

  /** A call that runs ends as it is, with the fault `stopped`. */
  stop(): void {
    this.#exchange?.stop()
  }

  /** A call that runs may end; no other will come. */
  close(): void {
    this.#closed = true
    if (!this.busy && this.#client) this.#drop(this.#client)
  }

  #startClock(leftMs = this.#callMs): void {
    this.#clock ??= setTimeout(() => {
      this.#clock = undefined
      const exchange = this.#exchange
      if (exchange === null) return
      const left = this.#callMs - exchange.tookMs()
      if (left > 0) this.#startClock(left)
      else exchange.onError(new CallError('timeout'))
    }, leftMs)
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
      connect: joiningConnector({
        lookup,
        timeout: this.#callMs,
        autoSelectFamily: true,
        onread: sharedReads,
      }),
    })
    return this.#client
  }

  #drop(client: Client): void {
    if (this.#client === client) this.#client = null
    clearTimeout(this.#clock)
    this.#clock = undefined
    client.destroy(null).catch(() => {})
  }
}

/**
 * Speaks the form of handler that undici 7 itself calls: the newer one is a wrapper around it that makes an object of all
 * headers of every answer, of which two are read here, and those seldom.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #startedAt = performance.now()
  #end: ((result: CallResult, reusable: boolean) => void) | null
  #status = 0
  #retryAfter: string | null = null
  #location: string | null = null
  #bytes = 0

  constructor(end: (result: CallResult, reusable: boolean) => void) {
    this.#end = end
  }

  get over(): boolean {
    return this.#end === null
  }

  onConnect(): void {}

  onHeaders(status: number, headers: Buffer[]): boolean {
    // Hints that come before the answer.
    if (status < 200) return true
    this.#status = status
    if (status >= 300) {
      this.#retryAfter = headerOf(headers, 'retry-after')
      this.#location = headerOf(headers, 'location')
    }
    return true
  }

  onData(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > answerBytesMax) this.#finish(false)
    return true
  }

  onComplete(): void {
    this.#finish(true)
  }

  onError(error: unknown): void {
    const fault = callFaultOf(error)
    this.#settle({ status: null, fault, retryAfter: null, location: null, tookMs: this.tookMs() }, false)
  }

  /** The status counts once the answer is whole, or longer than anyone reads. */
  #finish(reusable: boolean): void {
    const [retryAfter, location] = [this.#retryAfter, this.#location]
    this.#settle({ status: this.#status, fault: null, retryAfter, location, tookMs: this.tookMs() }, reusable)
  }

  #settle(result: CallResult, reusable: boolean): void {
    const end = this.#end
    if (end === null) return
    this.#end = null
    end(result, reusable)
  }

  readonly stop = () => this.onError(new CallError('stopped'))

  tookMs(): number {
    return performance.now() - this.#startedAt
  }
}

/** The first header of this name among names and values in turn; null when there is none. */
function headerOf(headers: Buffer[], name: string): string | null {
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const one = headers[at]!
    if (one.length !== name.length || one.toString('latin1').toLowerCase() !== name) continue
    return headers[at + 1]!.toString('latin1')
  }
  return null
}
