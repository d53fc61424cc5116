/** One connection to one target: a request in, its status or a fault out, within one clock for all of it. */

import type { LookupFunction } from 'node:net'
import { Client, type Dispatcher } from 'undici'
import { CallError, callFaultOf } from './call-fault.ts'
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
  /** Hears of the end of each call, before its caller does. */
  ended?(): void
}

export interface Request {
  /** Names and values in turn. */
  headers: string[]
  body: Buffer
  /** What it is handed ends the call at once, with the fault `stopped`. */
  stopper?: { heed(stop: () => void): void }
}

export class Connection {
  readonly #options: ConnectionOptions
  readonly #path: string
  #client: Client | null = null
  #exchange: Exchange | null = null
  /** One for all calls, set anew by each: it may ring when none runs. */
  #clock: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#path = `${options.url.pathname}${options.url.search}`
  }

  get busy(): boolean {
    return this.#exchange !== null
  }

  /**
   * `ended` hears how it ended, never inside of this call; of a whole answer at once, so that the next request is known
   * to the client while it still has the socket in its hands. One at a time: a second one is never sent behind the first.
   */
  send(request: Request, ended: (result: CallResult) => void): void {
    const client = this.#open()
    const exchange = new Exchange((result, reusable) => {
      this.#exchange = null
      // Whatever is left of the call ends with its connection.
      if (!reusable || this.#closed) this.#drop(client)
      this.#options.ended?.()
      if (result.status === null) queueMicrotask(() => ended(result))
      else ended(result)
    })
    this.#exchange = exchange
    this.#startClock()
    request.stopper?.heed(exchange.stop)
    if (exchange.over) return
    try {
      const { headers, body } = request
      client.dispatch({ path: this.#path, method: 'POST', headers, body }, exchange)
    } catch (error) {
      exchange.onResponseError(null, error)
    }
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

  #startClock(): void {
    if (this.#clock) return void this.#clock.refresh()
    const late = () => this.#exchange?.onResponseError(null, new CallError('timeout'))
    this.#clock = setTimeout(late, this.#options.callMs ?? callMs)
  }

  #open(): Client {
    this.#client ??= new Client(this.#options.url.origin, {
      pipelining: 1,
      keepAliveTimeout: idleMs,
      // The clock of the call is the only one.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { lookup: this.#options.lookup, timeout: this.#options.callMs ?? callMs },
      autoSelectFamily: true,
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

  onRequestStart(): void {}

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    // Hints that come before the answer.
    if (status < 200) return
    this.#status = status
    this.#retryAfter = one(headers['retry-after'])
    this.#location = one(headers.location)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > answerBytesMax) this.#finish(false)
  }

  onResponseEnd(): void {
    this.#finish(true)
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: unknown): void {
    const fault = callFaultOf(error)
    this.#settle({ status: null, fault, retryAfter: null, location: null, tookMs: this.#tookMs() }, false)
  }

  /** The status counts once the answer is whole, or longer than anyone reads. */
  #finish(reusable: boolean): void {
    const [retryAfter, location] = [this.#retryAfter, this.#location]
    this.#settle(
      { status: this.#status, fault: null, retryAfter, location, tookMs: this.#tookMs() },
      reusable,
    )
  }

  #settle(result: CallResult, reusable: boolean): void {
    const end = this.#end
    if (end === null) return
    this.#end = null
    end(result, reusable)
  }

  readonly stop = () => this.onResponseError(null, new CallError('stopped'))

  #tookMs(): number {
    return performance.now() - this.#startedAt
  }
}

function one(value: string | string[] | undefined): string | null {
  return (Array.isArray(value) ? value[0] : value) ?? null
}
