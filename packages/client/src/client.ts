/**
 * The typed client of the platform: an agent proves who it is with its private key, works on its vectors, talks to other
 * agents and fires events.
 */

import { authorized, type Credential, givenCredential, missingCredential } from './credentials.ts'
import { type FindAnswer, type FindOptions, find } from './find.ts'
import { hubOver } from './hub.ts'
import type { Goals, Notes } from './hub-types.ts'
import { createKeyHolder } from './key-holder.ts'
import { idTokenOver, type MainApi, mainApiOver } from './main-api.ts'
import { type Collections, collectionsOver, type Memory, memoryOver } from './memory.ts'
import { pathPart } from './path-part.ts'
import { ownProblem } from './problem-error.ts'
import type { RunTransport } from './run-transport.ts'
import type { Agents, Runs } from './run-types.ts'
import { agentsOver, runsOver } from './runs.ts'
import type { ScheduleCalls } from './schedule-types.ts'
import { schedulesOver } from './schedules.ts'
import { type ClientOptions, type Settings, settingsOf } from './settings.ts'
import { type Call, createTransport, get, post, type Transport } from './transport.ts'
import type {
  AcceptedOperation,
  AgentDebug,
  Embeddings,
  FireAnswer,
  FiredEvent,
  FireOptions,
  Health,
  OperationState,
  Stats,
} from './types.ts'
import { fireOver } from './webhooks.ts'

export { withoutAuditNotes } from './audit-notes.ts'
export type * from './filter.ts'
export type { FindAnswer, FindOptions, FoundRecord } from './find.ts'
export type * from './hub-types.ts'
export { createMainApi, type MainApi, type MainApiOptions, type MainApiRequest } from './main-api.ts'
export type * from './main-api-types.ts'
export type { Collections, Memory } from './memory.ts'
export { ProblemError } from './problem-error.ts'
export type { RecordsOptions, TopicRecord } from './records.ts'
export type * from './run-types.ts'
export type * from './schedule-types.ts'
export type { ClientOptions } from './settings.ts'
export type * from './types.ts'
export { filterWhere } from './where.ts'

const waitForMs = 60_000
const pollMs = { least: 50, most: 1_000 }

export interface Client extends Memory {
  /** A valid gateway key: made by handshake and verification when none is held. */
  apiKey(): Promise<string>
  /** Points, texts and collections; the functions for points are those of the client itself, too. */
  memory: Memory & { collections: Collections }
  /** Searches a local index and gets the records that it names from the gateway, and no others. */
  find(query: string, options?: FindOptions): Promise<FindAnswer>
  operation(operationId: string): Promise<OperationState>
  /** Resolves once the operation is applied or failed; throws ProblemError `timeout` after `timeoutMs` (60 s). */
  waitFor(
    operation: string | AcceptedOperation,
    options?: { timeoutMs?: number; signal?: AbortSignal },
  ): Promise<OperationState>
  embeddings(input: string | string[]): Promise<Embeddings>
  webhooks: {
    /**
     * Resolves once the log holds a delivery for each target; repeated after a fault, receivers drop duplicates by their
     * idempotency key. `targets` restricts it to those.
     */
    fire(event: FiredEvent, options?: FireOptions): Promise<FireAnswer>
  }
  /** The notes of the hub, in threads. */
  notes: Notes
  /** The goals of the hub. */
  goals: Goals
  /** Messages to agents. */
  runs: Runs
  /** The agents that take messages. */
  agents: Agents
  /** Messages that go to agents by the clock. */
  schedules: ScheduleCalls
  /** The records of a topic, over the main API. */
  records: MainApi['records']
  /** The main API, with an ID token: who this agent is, records of topics, and any other route. */
  main: Omit<MainApi, 'close'>
  /** Sizes and indexes of the collections, and the p95 of searches. */
  stats(): Promise<Stats>
  /** Sessions, last operations and use of the limits: of this agent, or of another for those who may look. */
  debugAgent(agentId?: string): Promise<AgentDebug>
  /** Also when it says `fail`. */
  health(): Promise<Health>
  /** Ends the calls under way; later ones fail at once. */
  close(): Promise<void>
}

/**
 * Builds a client; nothing is sent before the first call. Without options it works with the platform of this folder, as its only
 * agent. Throws TypeError for options that cannot work; every method throws ProblemError.
 */
export function createClient(options: ClientOptions = {}): Client {
  const settings = settingsOf(options)
  const { urls } = settings
  const over = (baseUrl: string) => createTransport({ ...options, baseUrl })
  const transport = over(urls.vectorUrl)
  const hub = over(urls.hubUrl)
  const runs = over(urls.runUrl)
  const relay = over(urls.webhookUrl)
  const main = over(urls.baseUrl)
  const { keys, token } = credentialsOf(settings, transport, main, options.now)

  const keyed = <T>(call: Call) => keys.with((key) => transport.call<T>(authorized(call, key)))
  const operation = (id: string, signal?: AbortSignal) =>
    keyed<OperationState>(get(`v1/operations/${pathPart(id)}`, {}, signal))

  const mainApi = mainApiOver(main, token)
  const waiting: Client['waitFor'] = (given, { timeoutMs = waitForMs, signal } = {}) =>
    waitFor((asking) => operation(idOf(given), asking), timeoutMs, signal)
  const memory = memoryOver(keyed, waiting)

  const runCalls: RunTransport = {
    respond: (call) => keys.with((key) => runs.respond(authorized(call, key))),
    open: (call) => keys.with((key) => runs.open(authorized(call, key))),
  }

  return {
    apiKey: keys.get,
    ...memory,
    memory: { ...memory, collections: collectionsOver(keyed) },
    find: (query, given = {}) => find(query, { ...localIndexOf(options), ...given }, memory.getMany),
    operation: (id) => operation(id),
    waitFor: waiting,
    embeddings: (input) => keyed(post('v1/embeddings', { input })),
    ...hubOver({
      respond: (call) => keys.with((key) => hub.respond(authorized(call, key))),
      stream: (call) => keys.with((key) => hub.stream(authorized(call, key))),
    }),
    runs: runsOver(runCalls),
    agents: agentsOver(runCalls),
    schedules: schedulesOver(runCalls),
    webhooks: { fire: (event, given) => fireOver(relay, event, given) },
    stats: () => keyed(get('v1/stats', {})),
    debugAgent: (agentId = settings.agentId ?? '') => keyed(get(`v1/debug/agent/${pathPart(agentId)}`, {})),
    records: mainApi.records,
    main: mainApi,
    health: () => transport.call({ ...get('v1/health', {}), alsoAnswers: [503] }),
    async close() {
      for (const one of [transport, hub, runs, relay, main]) one.close()
    },
  }
}

/** A gateway key for what agents do, an ID token for the main API; one alone serves for both. */
function credentialsOf(
  settings: Settings,
  vector: Transport,
  main: Transport,
  now: ClientOptions['now'],
): { keys: Credential; token: Credential } {
  const { agentId, apiKey, agentKey, idToken, privateKeyPem, missing } = settings
  let keys: Credential | undefined
  if (apiKey !== undefined) keys = givenCredential(apiKey)
  else if (agentId !== undefined && privateKeyPem !== undefined) {
    keys = createKeyHolder(vector, { agentId, privateKeyPem, now })
  }
  let token: Credential | undefined
  if (idToken !== undefined) token = givenCredential(idToken)
  else if (agentKey !== undefined) token = idTokenOver(main, { ...settings, agentKey, now })
  const none = missingCredential(missing)
  const noToken = keys && missingCredential('the main API needs agentKey or idToken')
  return { keys: keys ?? token ?? none, token: token ?? noToken ?? none }
}

function localIndexOf({ localIndex }: ClientOptions): FindOptions {
  return localIndex === undefined ? {} : { index: localIndex }
}

function idOf(operation: string | AcceptedOperation): string {
  return typeof operation === 'string' ? operation : operation.operation_id
}

async function waitFor(
  ask: (signal?: AbortSignal) => Promise<OperationState>,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<OperationState> {
  const end = performance.now() + timeoutMs
  for (let pause = pollMs.least; ; pause = Math.min(pollMs.most, pause * 1.5)) {
    signal?.throwIfAborted()
    const state = await ask(signal)
    if (state.status !== 'accepted') return state
    if (performance.now() + pause > end) {
      throw ownProblem('timeout', `the operation was not applied within ${timeoutMs} ms`)
    }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}
