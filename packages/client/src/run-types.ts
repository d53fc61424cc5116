/** Runs of agents and dispatches to all of them, as a client sees them. */

export type RunStatus = 'queued' | 'running' | 'input_required' | 'completed' | 'failed' | 'canceled'
export type DispatchStatus = 'running' | 'completed' | 'partial' | 'failed' | 'canceled'

/** Text, bytes, a file elsewhere, or the response of a function: one of them. Events have others, too, such as `functionCall`. */
export interface Part {
  text?: string
  /** `data` is base64; at most 1 MiB decoded in a message. */
  inlineData?: { mimeType: string; data: string; displayName?: string }
  fileData?: { fileUri: string; mimeType?: string; displayName?: string }
  /** Answers a call of the agent, by the id of that. */
  functionResponse?: { id?: string; name: string; response: Record<string, unknown> }
  [key: string]: unknown
}

export interface Content {
  role?: string
  parts: Part[]
}

/** An event of Google ADK; `author` is the agent's codename, `invocationId` the run's id. */
export interface RunEvent {
  id: string
  author: string
  invocationId: string
  /** In seconds. */
  timestamp: number
  content?: Content
  /** A piece of a text that comes as a whole later. */
  partial?: boolean
  errorCode?: string
  errorMessage?: string
  customMetadata?: Record<string, unknown>
  [key: string]: unknown
}

export interface RunError {
  /** `agent_error`, `node_lost`, `node_unavailable`, `run_timeout` or `too_many_events`. */
  code: string
  message: string
  retryable: boolean
}

/** A run waits for the answers to these calls; `adk_request_confirmation` asks for an approval. */
export interface Question {
  calls: { id: string; name: string; args?: unknown }[]
  text: string
  askedAt: string
  expiresAt: string
}

export interface Run {
  runId: string
  /** The agent's codename. */
  appName: string
  userId: string
  sessionId: string
  status: RunStatus
  trigger: 'api' | 'schedule' | 'mention' | 'dispatch' | 'synthesis' | 'report'
  parentRunId: string | null
  rootRunId: string
  goalId: number | null
  depth: number
  attempt: number
  error: RunError | null
  /** Agents that were named, and their runs. */
  joined: { agent: string; runId: string }[]
  /** Agents that were named and did not join. With `count` it is so many names, of which none is listed. */
  skipped: { agent: string; reason: string; count?: number }[]
  /** What it asks, while it is `input_required`: `runs.input` answers. */
  question: Question | null
  /** As its caller gave it. */
  metadata: Record<string, string>
  createdAt: string
  startedAt: string | null
  endedAt: string | null
  cancelRequestedAt: string | null
  lastEventId: number
  /** The text of its message, in lists the first 200 characters; null: it has none, as reports. */
  message: string | null
  /** Its message as it was sent; of `runs.get` alone. */
  parts?: Part[] | null
}

export interface Dispatch {
  /** That of the goal at the hub. */
  goalId: number
  userId: string
  sessionId: string
  status: DispatchStatus
  counts: Record<string, number>
  deadline: string
  /** One for every agent but the orchestrator. */
  runs: { runId: string; agent: string; status: RunStatus; error: RunError | null }[]
  /** The orchestrator's conclusion. */
  result: string | null
}

export interface MessageOptions {
  /** Default: the agent itself. */
  userId?: string
  /** Default: a new one. */
  sessionId?: string
  /** Default: one made by the client, so that a call without an answer is sent again and starts nothing twice. */
  idempotencyKey?: string
  /** At most 16 texts by name, shown with the run and for filters. */
  metadata?: Record<string, string>
  signal?: AbortSignal
}

export interface RunOptions extends MessageOptions {
  /** False: only the events of the addressed agent, not of those that it or the message names. */
  join?: boolean
  /** While another run of the session is at work or asks: wait for it (the default), fail with `session_busy`, or cancel it. */
  onBusy?: 'enqueue' | 'reject' | 'interrupt'
  /** Passed to the agent. */
  stateDelta?: Record<string, unknown>
  /** Passed to the agent. */
  customMetadata?: Record<string, unknown>
}

export type InputOptions = Pick<MessageOptions, 'idempotencyKey' | 'signal'>

export interface ResumeOptions {
  /** The number of the last event that was seen: those behind it come. Default 0, which is all. */
  after?: number
  signal?: AbortSignal
}

/** The answers of the agents, and the run as it ended, or the one that waits for an answer (`input_required`). */
export interface RunAnswer {
  run: Run
  events: RunEvent[]
}

/**
 * Events as they come, each one once; a broken connection is opened again where it broke. It ends with the run, whatever its
 * outcome, and throws ProblemError when the gateway stays away or refuses.
 */
export interface EventsOf<R> extends AsyncIterable<RunEvent> {
  /** The number of the last event that was given out: `after` of a later `resume`. */
  readonly lastEventId: number
  /** The run or dispatch as it ended; undefined before. */
  readonly result: R | undefined
}

export interface RunStream extends EventsOf<Run> {
  readonly runId: string
}

export interface DispatchStream extends EventsOf<Dispatch> {
  readonly goalId: number
}

export interface RunFilter {
  agent?: string
  status?: RunStatus
  userId?: string
  sessionId?: string
  goalId?: number
  rootRunId?: string
  /** All of these texts are among those of the run. */
  metadata?: Record<string, string>
  /** 1 to 1,000; default 100. */
  limit?: number
  /** `next` of the page before. */
  cursor?: string
  signal?: AbortSignal
}

/** An agent that takes messages. */
export interface CallableAgent {
  /** Its path at the run gateway. */
  slug: string
  codename: string
  /** Empty where the nodes file says none. */
  role: string
  /** Between the platform and its node: `adk`. */
  protocol: string
  /** Whether its node answers. */
  up: boolean
  /** When its node last answered. */
  lastSeen: string | null
  skills: string[]
}

/** The agents that take messages, at the run gateway: the main API lists agents in its own way. */
export interface Agents {
  list(): Promise<CallableAgent[]>
  /** By its slug in any case. Throws ProblemError `agent_not_found`. */
  get(slug: string): Promise<CallableAgent>
}

/** The messages of a user and the answers of all agents under one id. */
export interface RunSession {
  sessionId: string
  userId: string
  /** Codenames of all that ran in it. */
  agents: string[]
  /** How many runs, with those that joined. */
  runs: number
  createdAt: string
  /** When a run of it last began or ended. */
  lastAt: string
  /** The first 200 characters of the last message. */
  lastMessage: string | null
  lastStatus: RunStatus
}

export interface SessionFilter {
  /** Default: the caller. */
  userId?: string
  agent?: string
  /** 1 to 1,000; default 100. */
  limit?: number
  /** `next` of the page before. */
  cursor?: string
  signal?: AbortSignal
}

/** Events as they come, each one once, until the iteration ends; a broken connection is opened again where it broke. */
export interface SessionStream extends AsyncIterable<RunEvent> {
  /** Where the next `follow` goes on: `after`. Undefined before the first event. */
  readonly position: string | undefined
}

export interface SessionCalls {
  /** The one with the newest message first. */
  list(filter?: SessionFilter): Promise<{ sessions: RunSession[]; next: string | undefined }>
  /** Messages, with the author `user`, and what agents said, in order. Throws ProblemError `session_not_found`. */
  events(
    sessionId: string,
    page?: Omit<SessionFilter, 'agent'>,
  ): Promise<{ events: RunEvent[]; next: string | undefined }>
  /** All events so far, then new ones. It has no end of its own: leave the iteration, or abort the signal. */
  follow(
    sessionId: string,
    options?: { userId?: string; after?: string; signal?: AbortSignal },
  ): SessionStream
  /** Also at the nodes of its agents. Throws ProblemError `session_busy` while a run of it has not ended. */
  delete(
    sessionId: string,
    options?: { userId?: string; signal?: AbortSignal },
  ): Promise<{ sessionId: string; userId: string; deleted: true }>
}

/** Messages to agents, and their answers. */
export interface Runs {
  /**
   * Sends a message to an agent (its slug, `whale`) and waits for the end of the run. Throws ProblemError with the run's own
   * code when it failed, and `run_canceled` when somebody canceled it. Where an agent asks back it ends with the run that waits for an
   * answer (`input_required`, its `question`). Aborting the signal ends the waiting, not the run.
   */
  run(agent: string, message: string | Content, options?: RunOptions): Promise<RunAnswer>
  /** As `run`, with the events as they come, pieces of text (`partial`) among them. */
  stream(agent: string, message: string | Content, options?: RunOptions): Promise<RunStream>
  /** Sends the message and waits for nothing: the run as it begins. */
  start(agent: string, message: string | Content, options?: Omit<RunOptions, 'join'>): Promise<Run>
  /** The events of a run that was started before, also of one that has ended. */
  resume(runId: string, options?: ResumeOptions & { join?: boolean }): Promise<RunStream>
  /** Throws ProblemError `not_found`. */
  get(runId: string): Promise<Run>
  /** The newest first. */
  list(filter?: RunFilter): Promise<{ runs: Run[]; next: string | undefined }>
  /** Every run of a list, page by page. */
  all(filter?: RunFilter): AsyncGenerator<Run>
  /** Also the runs of the agents that joined. One that has ended stays as it is. */
  cancel(runId: string): Promise<Run>
  /**
   * Answers the question of a run that is `input_required`: by a text, or parts (a `functionResponse` with the id of a call). The
   * same run goes on, and this ends as `run` does. Throws ProblemError `not_waiting`.
   */
  input(runId: string, answer: string | Part[], options?: InputOptions): Promise<RunAnswer>
  /** As `input`, with the events as they come. */
  inputStream(runId: string, answer: string | Part[], options?: InputOptions): Promise<RunStream>
  sessions: SessionCalls
  /** Sends a message to every agent as one goal; its conclusion is `result` of the dispatch once it has ended. */
  dispatch(message: string | Content, options?: MessageOptions): Promise<Dispatch>
  dispatches: {
    get(goalId: number): Promise<Dispatch>
    /**
     * The events of all its agents and of the orchestrator. Where a run of it asks, an event of the author `gateway` has it in
     * `customMetadata.run`.
     */
    stream(goalId: number, options?: ResumeOptions): Promise<DispatchStream>
    cancel(goalId: number): Promise<Dispatch>
  }
}
