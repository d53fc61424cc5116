/** Sends the calls of the client, with time-outs and with retries of calls that are safe to repeat. */

import { closed, isAway, noAnswer, ownProblem, ProblemError, problemOfResponse } from './problem-error.ts'

export interface TransportOptions {
  baseUrl: string
  /** Default: the global fetch. */
  fetch?: typeof fetch
  /** Passed to fetch, for example an undici Agent or a MockAgent. */
  dispatcher?: unknown
  /** One attempt may take this long. Default 30,000. */
  timeoutMs?: number
  /**
   * A call that is safe to repeat is repeated for so many seconds after its first fault. Default 20: longer than a restart of the
   * platform takes.
   */
  retryFor?: number
  /** Bounds the attempts of such a call, too. Default: none. */
  attemptsMax?: number
  /** Longest wait before a further attempt; a longer retryAfter is not waited for. Default 10,000. */
  waitMsMax?: number
  /**
   * Waits out refusals of the agent's limits (`rate_limited`, `too_many_concurrent`, `quota_exceeded`) for up to so long
   * in all, however many tries it takes. Default 0: they count as attempts, and a used up quota is thrown at once.
   */
  waitOutLimitsMs?: number
  /** 0..1, for tests. */
  random?: () => number
  /** For tests. */
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
}

export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Below the base address, or an address of its own. */
  path: string
  query?: Record<string, string | string[] | undefined>
  body?: unknown
  headers?: Record<string, string>
  /** True when doing it twice does no harm. 429 is always safe: nothing was done. */
  repeatable: boolean
  /** Statuses other than 2xx whose body is an answer, not a fault. */
  alsoAnswers?: number[]
  signal?: AbortSignal
  /** Called as each try is sent. */
  began?: () => void
}

export interface Answer<T> {
  data: T
  headers: Headers
}

export interface OpenAnswer {
  status: number
  body: AsyncIterable<Uint8Array>
  headers: Headers
}

export interface Transport {
  /** Resolves with the parsed answer; throws ProblemError. */
  call<T>(call: Call): Promise<T>
  /** As `call`, with the headers of the answer. */
  respond<T>(call: Call): Promise<Answer<T>>
  /** The body of an answer that goes on: only its beginning has a time limit. */
  stream(call: Call): Promise<AsyncIterable<Uint8Array>>
  /** As `stream`, with the headers of the answer. */
  open(call: Call): Promise<OpenAnswer>
  /** Ends the calls under way with the code `closed`; later ones fail so at once. */
  close(): void
}

const backoffBaseMs = 100
const backoffMsMax = 2_000
const limitCodes: ReadonlySet<string> = new Set(['rate_limited', 'too_many_concurrent', 'quota_exceeded'])

export function createTransport(options: TransportOptions): Transport {
  const send = options.fetch ?? fetch
  const timeoutMs = options.timeoutMs ?? 30_000
  const attemptsMax = options.attemptsMax ?? Number.POSITIVE_INFINITY
  const retryForMs = (options.retryFor ?? 20) * 1_000
  const waitMsMax = options.waitMsMax ?? 10_000
  const sleep = options.sleep ?? pause
  const random = options.random ?? Math.random
  const closing = new AbortController()

  async function attempt<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const timeout = new AbortController()
    const timer = setTimeout(() => timeout.abort(timedOut()), timeoutMs)
    try {
      call.began?.()
      const response = await send(urlOf(options.baseUrl, call), {
        method: call.method,
        headers: {
          ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
          ...call.headers,
        },
        ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
        signal: AbortSignal.any([closing.signal, timeout.signal, ...(call.signal ? [call.signal] : [])]),
        ...(options.dispatcher === undefined ? {} : { dispatcher: options.dispatcher }),
      } as RequestInit)
      if (!response.ok && !isAnswer(call, response)) throw await problemOfResponse(response)
      return await read(response)
    } catch (error) {
      if (error instanceof ProblemError) throw error
      call.signal?.throwIfAborted()
      throw closing.signal.aborted ? closed() : noAnswer(error, hostOf(options.baseUrl, call), timeoutMs)
    } finally {
      clearTimeout(timer)
    }
  }

  async function repeated<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    let patienceMs = options.waitOutLimitsMs ?? 0
    let firstFaultAt: number | undefined
    let waitedMs = 0
    for (let tries = 1; ; tries++) {
      try {
        return await attempt<T>(call, read)
      } catch (error) {
        if (error instanceof ProblemError && limitCodes.has(error.code) && patienceMs > 0) {
          const waitMs = waitOf(error, 1, random())
          if (waitMs > patienceMs) throw error
          patienceMs -= waitMs
          tries -= 1
          await wait(waitMs, call)
          continue
        }
        if (!(error instanceof ProblemError) || tries >= attemptsMax || !mayRepeat(call, error)) throw error
        firstFaultAt ??= performance.now()
        const waitMs = waitOf(error, tries, random())
        const passedMs = Math.max(performance.now() - firstFaultAt, waitedMs)
        if (waitMs > waitMsMax || passedMs + waitMs > retryForMs) throw error
        waitedMs += waitMs
        await wait(waitMs, call)
      }
    }
  }

  /** Ends at once with the call's signal, and when the client is closed. */
  async function wait(ms: number, { signal }: Call): Promise<void> {
    await sleep(ms, AbortSignal.any([closing.signal, ...(signal ? [signal] : [])]))
    signal?.throwIfAborted()
    if (closing.signal.aborted) throw closed()
  }

  const respond = async <T>(call: Call): Promise<Answer<T>> => {
    const { text, headers } = await repeated(call, async (response) => ({
      text: await response.text(),
      headers: response.headers,
    }))
    return { data: parsed<T>(text, call), headers }
  }
  const open = (call: Call): Promise<OpenAnswer> =>
    repeated(call, async ({ status, body, headers }) => ({ status, body: body ?? emptyBody(), headers }))
  return {
    respond,
    open,
    call: async <T>(call: Call) => (await respond<T>(call)).data,
    stream: async (call) => (await open(call)).body,
    close: () => closing.abort(),
  }
}

/** A proxy may answer 200 with a page of its own. */
function parsed<T>(text: string, { method, path }: Call): T {
  try {
    return JSON.parse(text) as T
  } catch {
    throw ownProblem('invalid_answer', `the answer to ${method} ${path} is no JSON`)
  }
}

async function* emptyBody(): AsyncGenerator<Uint8Array> {}

function timedOut(): Error {
  return Object.assign(new Error('no answer in time'), { name: 'TimeoutError' })
}

/** A proxy's error page in place of the service's JSON is no answer, whatever its status. */
function isAnswer({ alsoAnswers }: Call, { status, headers }: Response): boolean {
  return alsoAnswers?.includes(status) === true && /\bjson\b/i.test(headers.get('content-type') ?? '')
}

function mayRepeat(call: Call, error: ProblemError): boolean {
  if (error.status === 429) return error.code !== 'quota_exceeded'
  if (!call.repeatable) return false
  return isAway(error) || error.code === 'idempotency_in_progress'
}

/** The server's own time, or exponential back-off; full jitter keeps clients apart. */
function waitOf(error: ProblemError, tries: number, random: number): number {
  const backoffMs = random * Math.min(backoffBaseMs * 2 ** tries, backoffMsMax)
  return error.retryAfter === undefined ? backoffMs : error.retryAfter * 1_000 + random * backoffBaseMs
}

function urlOf(baseUrl: string, { path, query }: Call): string {
  const url = new URL(path, baseUrl.endsWith('/') ? baseUrl : `${baseUrl}/`)
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of value === undefined ? [] : [value].flat()) url.searchParams.append(name, one)
  }
  return url.href
}

function hostOf(baseUrl: string, { path }: Call): string {
  return URL.canParse(path, baseUrl) ? new URL(path, baseUrl).host : 'the server'
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end, { once: true })
  })
}

/** Gateways and proxies take addresses of this length. */
const queryLengthMax = 6_000

export function get(path: string, query: NonNullable<Call['query']>, signal?: AbortSignal): Call {
  return { method: 'GET', path, query, repeatable: true, ...(signal ? { signal } : {}) }
}

export function post(path: string, body: unknown, signal?: AbortSignal): Call {
  return { method: 'POST', path, body, repeatable: true, ...(signal ? { signal } : {}) }
}

/** By address where it is short, which gateways of every version know; else in the body. */
export function read(
  path: string,
  query: NonNullable<Call['query']>,
  body: Record<string, unknown>,
  signal?: AbortSignal,
): Call {
  const form = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value ?? []].flat()) form.append(name, one)
  }
  return form.toString().length <= queryLengthMax ? get(path, query, signal) : post(path, body, signal)
}
