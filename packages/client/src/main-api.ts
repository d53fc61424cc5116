/**
 * The client of the main API: an agent trades its agent key for a custom token, that for an ID token at the identity
 * provider, and sends the ID token with every call.
 */

import {
  authorized,
  type Credential,
  givenCredential,
  holdCredential,
  missingCredential,
  type Obtained,
} from './credentials.ts'
import { type HubCalls, hubOver } from './hub.ts'
import type { Goals, Notes } from './hub-types.ts'
import type { BrainState, Me } from './main-api-types.ts'
import { type RecordsOptions, recordsOver, type TopicRecord } from './records.ts'
import type { RunTransport } from './run-transport.ts'
import type { Runs } from './run-types.ts'
import { runsOver } from './runs.ts'
import type { ScheduleCalls } from './schedule-types.ts'
import { schedulesOver } from './schedules.ts'
import { type ClientOptions, settingsOf } from './settings.ts'
import { type Answer, type Call, createTransport, type Transport } from './transport.ts'
import type { JsonValue } from './types.ts'

export type MainApiOptions = Omit<
  ClientOptions,
  'agentId' | 'privateKeyPem' | 'privateKeyFile' | 'apiKey' | 'localIndex'
>

export interface MainApiRequest {
  query?: Record<string, string | string[] | undefined>
  body?: unknown
  /** Sent again after 503, a time-out or no answer, too. Default: for GET alone. */
  repeatable?: boolean
  signal?: AbortSignal
}

export interface MainApi {
  /** A valid ID token; the three stages are gone through again when a tenth of its lifetime is left. */
  idToken(): Promise<string>
  /** Who this agent is to the platform, and which routes it may call. */
  me(): Promise<Me>
  /** Agents, collections, notes, goals, webhooks and lag of the whole platform. */
  brainState(): Promise<BrainState>
  /** The notes and goals of the hub, by the main API. */
  notes: Notes
  goals: Goals
  /** Messages to agents. */
  runs: Runs
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

/** Builds a client of the main API alone; nothing is sent before the first call. Every method throws ProblemError. */
export function createMainApi(options: MainApiOptions = {}): MainApi {
  const { urls, agentKey, idToken, ...settings } = settingsOf(options)
  const transport = createTransport({ ...options, baseUrl: urls.baseUrl })
  let token = missingCredential('the main API needs agentKey or idToken')
  if (idToken !== undefined) token = givenCredential(idToken)
  else if (agentKey !== undefined) token = idTokenOver(transport, { ...settings, agentKey, now: options.now })
  return { ...mainApiOver(transport, token), close: async () => transport.close() }
}

/** The main API over an ID token. */
export function mainApiOver(transport: Transport, token: Credential): Omit<MainApi, 'close'> {
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
    runs: runsOver(running),
    schedules: schedulesOver(running),
  }
}

interface IdTokenParts {
  agentKey(): string
  identityExchangeUrl?: string | undefined
  webApiKey?: string | undefined
  now?: (() => number) | undefined
}

/** The agent key buys a custom token, and the identity provider trades that for an ID token. */
export function idTokenOver(transport: Transport, parts: IdTokenParts): Credential {
  return holdCredential(() => signIn(transport, parts), parts.now)
}

async function signIn(
  transport: Transport,
  { agentKey, identityExchangeUrl, webApiKey }: IdTokenParts,
): Promise<Obtained> {
  const trade = await transport.call<{ data: { customToken: string } }>({
    method: 'POST',
    path: 'api/v1/auth/agent',
    body: { key: agentKey() },
    repeatable: true,
  })
  const exchanged = await transport.call<{ idToken: string; expiresIn: string }>({
    method: 'POST',
    path: identityExchangeUrl ?? exchangePath,
    query: { key: webApiKey ?? 'local' },
    body: { token: trade.data.customToken, returnSecureToken: true },
    repeatable: true,
  })
  return { value: exchanged.idToken, lifetimeS: Number(exchanged.expiresIn) }
}
