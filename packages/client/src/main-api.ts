/**
 * The client of the main API: an agent trades its agent key for a custom token, that for an ID token at the identity
 * provider, and sends the ID token with every call.
 */

import { readFileSync } from 'node:fs'
import { type HubCalls, hubOver } from './hub.ts'
import type { Goals, Notes } from './hub-types.ts'
import { type RecordsOptions, recordsOver, type TopicRecord } from './records.ts'
import type { RunTransport } from './run-transport.ts'
import type { RunCalls } from './run-types.ts'
import { runsOver } from './runs.ts'
import type { ScheduleCalls } from './schedule-types.ts'
import { schedulesOver } from './schedules.ts'
import {
  type Answer,
  authorized,
  type Call,
  createTransport,
  holdCredential,
  type Obtained,
  type Transport,
  type TransportOptions,
} from './transport.ts'
import type { BrainState, JsonValue, Me } from './types.ts'

export interface MainApiOptions extends Omit<TransportOptions, 'baseUrl'> {
  /** `base_url`, for example `http://127.0.0.1:8081`. */
  baseUrl: string
  /** `svc_` and 64 hex digits, or the file that holds it. */
  agentKey?: string
  agentKeyFile?: string
  /** `identity_exchange_url`. Default: that of the platform's own issuer, below `baseUrl`. */
  identityExchangeUrl?: string
  /** The web API key of the Firebase project; the platform's own issuer takes any. */
  webApiKey?: string
  /** Milliseconds that only go forward, for tests. */
  now?: () => number
}

export interface MainApiRequest {
  query?: Record<string, string | string[] | undefined>
  body?: unknown
  /** Sent again after 503, a time-out or no answer, too. Default: for GET alone. */
  repeatable?: boolean
  signal?: AbortSignal
}

export interface MainApi extends RunCalls {
  /** A valid ID token; the three stages are gone through again when a tenth of its lifetime is left. */
  idToken(): Promise<string>
  /** Who this agent is to the platform, and which routes it may call. */
  me(): Promise<Me>
  /** Agents, collections, notes, goals, webhooks and lag of the whole platform. */
  brainState(): Promise<BrainState>
  /** The notes and goals of the hub, by the main API. */
  notes: Notes
  goals: Goals
  /** Messages that go to agents by the clock. */
  schedules: ScheduleCalls
  /**
   * The records of a topic, from the beginning or behind a position, as they come: it goes on behind cut connections and
   * restarts of the platform, without a gap or a repeat.
   */
  records<V = JsonValue>(topic: string, options?: RecordsOptions): AsyncGenerator<TopicRecord<V>>
  /** Any other route, for example `request('GET', 'log/groups')`: what its answer holds as `data`. */
  request<T = JsonValue>(method: Call['method'], path: string, given?: MainApiRequest): Promise<T>
  /** Ends the calls under way; later ones fail at once. */
  close(): Promise<void>
}

const exchangePath = 'identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken'

/** Builds a client of the main API; nothing is sent before the first call. Every method throws ProblemError. */
export function createMainApi(options: MainApiOptions): MainApi {
  const transport = createTransport(options)
  const token = holdCredential(() => signIn(transport, options), options.now)

  const below = (call: Call): Call => ({ ...call, path: `api/v1/${call.path}` })
  const hub: HubCalls = {
    async respond<T>(call: Call): Promise<Answer<T>> {
      const { data, headers } = await token.with((idToken) =>
        transport.respond<{ data: T }>(authorized(below(call), idToken)),
      )
      return { data: data.data, headers }
    },
    stream: (call) => token.with((idToken) => transport.stream(authorized(below(call), idToken))),
  }

  async function request<T>(method: Call['method'], path: string, given: MainApiRequest = {}): Promise<T> {
    const { data } = await token.with((idToken) =>
      transport.call<{ data: T }>(
        authorized(
          below({ method, path: path.replace(/^\/+/, ''), repeatable: method === 'GET', ...given }),
          idToken,
        ),
      ),
    )
    return data
  }
  const running: RunTransport = {
    respond: hub.respond,
    open: (call) => token.with((idToken) => transport.open(authorized(below(call), idToken))),
    atMainApi: true,
  }
  return {
    idToken: token.get,
    me: () => request('GET', 'me'),
    brainState: () => request('GET', 'brain/state'),
    request,
    records: (topic, given) => recordsOver(hub, topic, given),
    ...hubOver(hub),
    ...runsOver(running),
    schedules: schedulesOver(running),
    async close() {
      transport.close()
    },
  }
}

async function signIn(transport: Transport, options: MainApiOptions): Promise<Obtained> {
  const trade = await transport.call<{ data: { customToken: string } }>({
    method: 'POST',
    path: 'api/v1/auth/agent',
    body: { key: agentKeyOf(options) },
    repeatable: true,
  })
  const exchanged = await transport.call<{ idToken: string; expiresIn: string }>({
    method: 'POST',
    path: options.identityExchangeUrl ?? exchangePath,
    query: { key: options.webApiKey ?? 'local' },
    body: { token: trade.data.customToken, returnSecureToken: true },
    repeatable: true,
  })
  return { value: exchanged.idToken, lifetimeS: Number(exchanged.expiresIn) }
}

function agentKeyOf({ agentKey, agentKeyFile }: MainApiOptions): string {
  if (agentKey !== undefined) return agentKey
  if (agentKeyFile !== undefined) return readFileSync(agentKeyFile, 'utf8').trim()
  throw new TypeError('give createMainApi an agentKey or an agentKeyFile')
}
