/**
 * The typed client of the platform: an agent proves who it is with its private key, works on its vectors, talks to other
 * agents and fires events.
 */

import { readFileSync } from 'node:fs'
import { type FindAnswer, type FindOptions, find } from './find.ts'
import { defaultHubUrl, hubOver } from './hub.ts'
import type { Goals, Notes } from './hub-types.ts'
import { createKeyHolder } from './key-holder.ts'
import { type Collections, collectionsOver, type Memory, memoryOver } from './memory.ts'
import { pathPart } from './path-part.ts'
import { ownProblem } from './problem-error.ts'
import type { RunTransport } from './run-transport.ts'
import type { AgentCalls, RunCalls } from './run-types.ts'
import { agentsOver, defaultRunUrl, runsOver } from './runs.ts'
import type { ScheduleCalls } from './schedule-types.ts'
import { schedulesOver } from './schedules.ts'
import { authorized, type Call, createTransport, get, post, type TransportOptions } from './transport.ts'
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
import { fireOver, openWebhookTransport } from './webhooks.ts'

export { withoutAuditNotes } from './audit-notes.ts'
export type * from './filter.ts'
export type { FindAnswer, FindOptions, FoundRecord } from './find.ts'
export type * from './hub-types.ts'
export { createMainApi, type MainApi, type MainApiOptions, type MainApiRequest } from './main-api.ts'
export type { Collections, Memory } from './memory.ts'
export { ProblemError } from './problem-error.ts'
export type { RecordsOptions, TopicRecord } from './records.ts'
export type * from './run-types.ts'
export type * from './schedule-types.ts'
export type * from './types.ts'
export { filterWhere } from './where.ts'

const waitForMs = 60_000
const pollMs = { least: 50, most: 1_000 }

export interface ClientOptions extends Omit<TransportOptions, 'baseUrl'> {
  /** For example `http://127.0.0.1:8080`. */
  vectorUrl: string
  /** Default `http://127.0.0.1:8083`. */
  hubUrl?: string | undefined
  /** The run gateway. Default `http://127.0.0.1:8082`. */
  runUrl?: string | undefined
  /** The webhook relay: a URL or `host:port`. Default `http://127.0.0.1:9090`. */
  webhookUrl?: string | undefined
  agentId: string
  /** PKCS#8 PEM of the agent's Ed25519 key, or the file that holds it. */
  privateKeyPem?: string
  privateKeyFile?: string
  /** The index file that `find` searches. */
  localIndex?: string
  /** Milliseconds that only go forward, for tests. */
  now?: () => number
}

export interface Client extends Omit<RunCalls, 'runs'>, AgentCalls, Memory {
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
  /**
   * Resolves once the log holds a delivery for each target; repeated after a fault, receivers drop duplicates by their
   * idempotency key. `targets` restricts it to those.
   */
  fire(event: FiredEvent, options?: FireOptions): Promise<FireAnswer>
  /** The notes of the hub, in threads. */
  notes: Notes
  /** The goals of the hub. */
  goals: Goals
  /** Messages that go to agents by the clock. */
  schedules: ScheduleCalls
  /** Sizes and indexes of the collections, and the p95 of searches. */
  stats(): Promise<Stats>
  /** Sessions, last operations and use of the limits: of this agent, or of another for those who may look. */
  debugAgent(agentId?: string): Promise<AgentDebug>
  /** Also when it says `fail`. */
  health(): Promise<Health>
  /** Ends the calls under way; later ones fail at once. */
  close(): Promise<void>
}

/** Builds a client; nothing is sent before the first call. Every method throws ProblemError. */
export function createClient(options: ClientOptions): Client {
  const transport = createTransport({ ...options, baseUrl: options.vectorUrl })
  const relay = openWebhookTransport(options)
  const hub = createTransport({ ...options, baseUrl: options.hubUrl ?? defaultHubUrl })
  const runs = createTransport({ ...options, baseUrl: options.runUrl ?? defaultRunUrl })
  const keys = createKeyHolder(transport, {
    agentId: options.agentId,
    privateKeyPem: () => privateKeyOf(options),
    now: options.now,
  })

  const keyed = <T>(call: Call) => keys.with((key) => transport.call<T>(authorized(call, key)))
  const operation = (id: string, signal?: AbortSignal) =>
    keyed<OperationState>(get(`v1/operations/${pathPart(id)}`, {}, signal))

  const waiting: Client['waitFor'] = (given, { timeoutMs = waitForMs, signal } = {}) =>
    waitFor((asking) => operation(idOf(given), asking), timeoutMs, signal)
  const memory = memoryOver(keyed, waiting)

  const runCalls: RunTransport = {
    respond: (call) => keys.with((key) => runs.respond(authorized(call, key))),
    open: (call) => keys.with((key) => runs.open(authorized(call, key))),
  }
  const running = runsOver(runCalls)

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
    ...running,
    runs: { ...running.runs, ...agentsOver(runCalls) },
    schedules: schedulesOver(runCalls),
    fire: (event, given) => fireOver(relay, event, given),
    stats: () => keyed(get('v1/stats', {})),
    debugAgent: (agentId = options.agentId) => keyed(get(`v1/debug/agent/${pathPart(agentId)}`, {})),
    health: () => transport.call({ ...get('v1/health', {}), alsoAnswers: [503] }),
    async close() {
      transport.close()
      relay.close()
      hub.close()
      runs.close()
    },
  }
}

function privateKeyOf(options: ClientOptions): string {
  if (options.privateKeyPem !== undefined) return options.privateKeyPem
  if (options.privateKeyFile !== undefined) return readFileSync(options.privateKeyFile, 'utf8')
  throw new TypeError('give createClient a privateKeyPem or a privateKeyFile')
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
