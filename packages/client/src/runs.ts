/** Runs of agents over the run gateway: messages, streams that go on behind a break, dispatches to all agents. */

import { pauseBetween, readEvents, refuseEnd } from './events.ts'
import { headerOf, nextOf, signalOf } from './hub.ts'
import { pathPart } from './path-part.ts'
import { randomId } from './random.ts'
import { faultOf } from './run-fault.ts'
import { awayMsMax, openedWithin, type RunTransport } from './run-transport.ts'
import type {
  Agents,
  CallableAgent,
  Content,
  Dispatch,
  DispatchStream,
  EventsOf,
  InputOptions,
  MessageOptions,
  Part,
  ResumeOptions,
  Run,
  RunAnswer,
  RunEvent,
  RunFilter,
  RunOptions,
  Runs,
} from './run-types.ts'
import { sessionsOver } from './sessions.ts'
import type { Call } from './transport.ts'

/** The author of the last frame of a stream, which holds the outcome and no text. */
const gatewayAuthor = 'gateway'

export function runsOver(calls: RunTransport): Runs {
  const runs: Runs = {
    async run(agent, message, options = {}) {
      const call = runCall(agent, message, options, false)
      return collect(await begin(calls, call, options))
    },
    stream: async (agent, message, options = {}) =>
      begin(calls, runCall(agent, message, options, true), options),
    async start(agent, message, options = {}) {
      const { path, headers, ...call } = runCall(agent, message, options, false)
      const place = { path: calls.atMainApi ? 'runs' : path }
      const asked = { ...headers, accept: 'application/json', prefer: 'respond-async' }
      return (await calls.respond<Run>({ ...call, ...place, query: {}, headers: asked })).data
    },
    async resume(runId, { join, ...options } = {}) {
      const source = { path: pathOf(runId), query: joinQuery(join), name: 'run' as const }
      return Object.assign(eventsOf<Run>(calls, source, options), { runId })
    },
    get: async (runId) => (await calls.respond<Run>(getCall(pathOf(runId)))).data,
    list: (filter = {}) => pageOf(calls, filter),
    async *all(filter = {}) {
      let cursor = filter.cursor
      do {
        const page = await runs.list({ ...filter, ...(cursor === undefined ? {} : { cursor }) })
        yield* page.runs
        cursor = page.next
      } while (cursor !== undefined)
    },
    cancel: async (runId) => (await calls.respond<Run>(cancelCall(pathOf(runId)))).data,
    input: async (runId, answer, options = {}) => collect(await continued(calls, runId, answer, options)),
    inputStream: (runId, answer, options = {}) => continued(calls, runId, answer, options),
    sessions: sessionsOver(calls),
    async dispatch(message, options = {}) {
      const path = calls.atMainApi ? 'dispatches' : 'dispatch'
      return (await calls.respond<Dispatch>({ ...dispatchCall(message, options), path })).data
    },
    dispatches: {
      get: async (goalId) => (await calls.respond<Dispatch>(getCall(dispatchPath(goalId)))).data,
      cancel: async (goalId) => (await calls.respond<Dispatch>(cancelCall(dispatchPath(goalId)))).data,
      async stream(goalId, options = {}): Promise<DispatchStream> {
        const source = { path: dispatchPath(goalId), name: 'dispatch' as const }
        return Object.assign(eventsOf<Dispatch>(calls, source, options), { goalId })
      },
    },
  }
  return runs
}

/** The agents that take messages, at the run gateway. */
export function agentsOver(calls: RunTransport): Agents {
  return {
    list: async () => (await calls.respond<CallableAgent[]>(getCall('agents'))).data,
    get: async (slug) => (await calls.respond<CallableAgent>(getCall(`agents/${pathPart(slug)}`))).data,
  }
}

/** Sends the message; where the connection breaks, the run's own stream follows. */
async function begin(calls: RunTransport, call: Call, { join, signal }: RunOptions) {
  const opened = calls.atMainApi ? undefined : await calls.open(call)
  const runId = opened
    ? (opened.headers.get('x-run-id') ?? '')
    : (await calls.respond<Run>({ ...call, path: 'runs', query: {} })).data.runId
  const source = { path: pathOf(runId), query: joinQuery(join), name: 'run' as const }
  return Object.assign(eventsOf<Run>(calls, source, signalOf({ signal }), opened?.body), { runId })
}

/** Answers a question; the run's own events behind the answer follow. */
async function continued(calls: RunTransport, runId: string, answer: string | Part[], options: InputOptions) {
  const call = creation(options)
  const body = typeof answer === 'string' ? { message: answer } : { parts: answer }
  const path = `${pathOf(runId)}/input`
  const headers = { ...call.headers, prefer: 'respond-async' }
  const { data } = await calls.respond<Run>({ ...call, path, body, headers })
  const source = { path: pathOf(runId), query: {}, name: 'run' as const }
  const given = { ...signalOf(options), after: data.lastEventId }
  return Object.assign(eventsOf<Run>(calls, source, given), { runId })
}

async function collect(stream: EventsOf<Run>): Promise<RunAnswer> {
  const events: RunEvent[] = []
  for await (const event of stream) if (!event.partial) events.push(event)
  const run = stream.result!
  if (run.status !== 'completed' && run.status !== 'input_required') throw faultOf(run)
  return { run, events }
}

interface Source {
  path: string
  query?: NonNullable<Call['query']>
  /** Names the outcome in the last frame. */
  name: 'run' | 'dispatch'
}

/** `opened`: a body that is open already. */
function eventsOf<R>(
  calls: RunTransport,
  { path, query = {}, name }: Source,
  { after = 0, signal }: ResumeOptions,
  opened?: AsyncIterable<Uint8Array>,
): EventsOf<R> {
  const state: { lastEventId: number; result: R | undefined } = { lastEventId: after, result: undefined }
  let seenAt = 0

  /** Events of one connection that were not given out before. */
  async function* oneConnection(body: AsyncIterable<Uint8Array>): AsyncGenerator<RunEvent> {
    for await (const { event: kind, id, data } of readEvents(body)) {
      // Heartbeats are signs of life, too.
      seenAt = performance.now()
      if (kind === 'end') refuseEnd(data)
      if (kind !== 'message') continue
      const event = JSON.parse(data) as RunEvent
      const outcome = outcomeOf<R>(event, name)
      if (outcome !== undefined) {
        state.result = outcome
        return
      }
      // Neither pieces nor questions of a dispatch's runs have an id.
      if (!event.partial && event.author !== gatewayAuthor) {
        const number = Number(id)
        if (number <= state.lastEventId) continue
        state.lastEventId = number
      }
      yield event
    }
  }
  const reopen = () =>
    calls.open({
      ...getCall(`${path}/events`),
      query,
      headers: {
        accept: 'text/event-stream',
        ...(state.lastEventId > 0 ? headerOf('last-event-id', String(state.lastEventId)) : {}),
      },
      ...signalOf({ signal }),
    })
  async function* read(): AsyncGenerator<RunEvent> {
    let body = opened
    // It can be read once: a second iteration goes on behind the last event.
    opened = undefined
    seenAt = performance.now()
    while (state.result === undefined) {
      signal?.throwIfAborted()
      if (!body) {
        const answer = await openedWithin(reopen, seenAt + awayMsMax, signal)
        body = answer.body
        // It has ended, and all of its events were read before, the last one too.
        if (answer.status === 204) state.result = (await calls.respond<R>(getCall(path))).data
      }
      for await (const event of oneConnection(body)) {
        yield event
        signal?.throwIfAborted()
      }
      body = undefined
      if (state.result === undefined) await pauseBetween(signal)
    }
  }
  return {
    get lastEventId() {
      return state.lastEventId
    },
    get result() {
      return state.result
    },
    [Symbol.asyncIterator]: read,
  }
}

function outcomeOf<R>({ author, customMetadata }: RunEvent, name: string): R | undefined {
  return author === gatewayAuthor ? (customMetadata?.[name] as R | undefined) : undefined
}

function runCall(
  agent: string,
  message: string | Content,
  { userId, sessionId, join, onBusy, stateDelta, customMetadata, metadata, ...options }: RunOptions,
  streaming: boolean,
): Call {
  const newMessage = contentOf(message)
  return {
    ...creation(options),
    path: `${pathPart(agent.toLowerCase())}/run`,
    query: joinQuery(join),
    // Fields that are undefined are left out by JSON.
    body: {
      appName: agent,
      userId,
      sessionId,
      newMessage,
      streaming,
      onBusy,
      stateDelta,
      customMetadata,
      metadata,
    },
    headers: { ...creation(options).headers, accept: 'text/event-stream' },
  }
}

function dispatchCall(
  message: string | Content,
  { userId, sessionId, metadata, ...options }: MessageOptions,
): Call {
  return { ...creation(options), body: { userId, sessionId, message, metadata } }
}

/** Repeated safely: the key names what it creates. */
function creation({ idempotencyKey = randomId(), signal }: MessageOptions): Call {
  return {
    method: 'POST',
    path: '',
    headers: headerOf('idempotency-key', idempotencyKey),
    repeatable: true,
    ...signalOf({ signal }),
  }
}

function contentOf(message: string | Content): Content {
  return typeof message === 'string' ? { role: 'user', parts: [{ text: message }] } : message
}

async function pageOf(calls: RunTransport, { signal, metadata = {}, ...filter }: RunFilter) {
  const byMetadata = Object.entries(metadata).map(([name, text]) => [`metadata.${name}`, text] as const)
  const query = Object.fromEntries(
    [...Object.entries(filter), ...byMetadata].map(([name, value]) => [
      name,
      value === undefined ? undefined : String(value),
    ]),
  )
  const { data, headers } = await calls.respond<Run[]>({ ...getCall('runs'), query, ...signalOf({ signal }) })
  return { runs: data, next: nextOf(headers.get('link')) }
}

function getCall(path: string): Call {
  return { method: 'GET', path, repeatable: true }
}

/** A run that has ended does not change, so canceling twice does no harm. */
function cancelCall(path: string): Call {
  return { method: 'POST', path: `${path}/cancel`, repeatable: true }
}

function pathOf(runId: string): string {
  return `runs/${pathPart(runId)}`
}

function dispatchPath(goalId: number): string {
  return `dispatches/${pathPart(goalId)}`
}

function joinQuery(join: boolean | undefined): NonNullable<Call['query']> {
  return join === false ? { join: 'false' } : {}
}
