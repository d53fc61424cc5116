/** Dispatchers on a database, with agents at a scripted node, for tests of runs. */

import type { Relational, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { type Dispatcher, startDispatcher } from '#services/runs/dispatch/dispatcher.ts'
import { createRunNews } from '#services/runs/dispatch/news.ts'
import type { RunTimes } from '#services/runs/dispatch/parts.ts'
import { createNodeCalls } from '#services/runs/nodes/adk/call.ts'
import type { NodeSet } from '#services/runs/nodes/nodes.ts'
import { acceptRun, type NewRun } from '#services/runs/state/accept.ts'
import { listRuns, readEvents, readRun } from '#services/runs/state/read.ts'
import type { Run, StoredEvent } from '#services/runs/state/types.ts'
import { eventually } from './eventually.ts'
import { silentLog } from './relational.ts'
import { nodesAt, shortTimes } from './run-nodes.ts'
import { newRun } from './run-rows.ts'
import type { ScriptedNode } from './scripted-node.ts'

export interface RunWorld {
  relational: Relational
  node: ScriptedNode
  dispatchers: Dispatcher[]
  /** Published records, in order. */
  news: RunEventRecord[]
  /** The log takes nothing. */
  logIsAway: boolean
  /** Which statements of the dispatchers, and of `acceptAtOnce`, fail, before they were done or after it: their answer is lost then. */
  databaseFault: (statement: string) => 'before' | 'after' | undefined
  start(options?: DispatcherGiven): Dispatcher
  accept(text: string, given?: Partial<NewRun>): Promise<Run>
  /** As `accept`, by a gateway in the process of this dispatcher: it claims the run with its acceptance where it can. */
  acceptAtOnce(dispatcher: Dispatcher, text: string, given?: Partial<NewRun>): Promise<Run>
  /** The run when it has ended. */
  ended(runId: string): Promise<Run>
  /** The texts of the tree's durable events as `AUTHOR: text`, when it has ended. */
  talk(rootRunId: string): Promise<string[]>
  /** Durable events of the tree so far. */
  talkSoFar(rootRunId: string): Promise<number>
  all(): Promise<Run[]>
  close(): Promise<void>
}

export interface DispatcherGiven {
  holder?: string
  times?: Partial<RunTimes>
  nodes?: NodeSet
  drainMs?: number
  inputWaitS?: number
}

/** Only ends a hang. */
const patienceMs = 60_000

const said = (text: string): NewRun['message'] => ({ role: 'user', parts: [{ text }] })

export function openRunWorld(relational: Relational, node: ScriptedNode): RunWorld {
  const dispatchers: Dispatcher[] = []
  const news: RunEventRecord[] = []
  const publisher = {
    publish: async (_topic: unknown, messages: { value: unknown }[]) => {
      if (world.logIsAway) throw new AppError('log_unavailable', 'The log is away.')
      for (const { value } of messages) news.push(value as RunEventRecord)
      return []
    },
  }

  const faulty: Relational = {
    ...relational,
    async query<Row>(text: string, params?: SqlValue[]) {
      const fault = world.databaseFault(text)
      if (fault === 'before') throw databaseAway()
      const result = await relational.query<Row>(text, params)
      if (fault === 'after') throw databaseAway()
      return result
    },
  }

  const world: RunWorld = {
    relational,
    node,
    dispatchers,
    news,
    logIsAway: false,
    databaseFault: () => undefined,
    start({ holder, times, nodes, drainMs = 0, inputWaitS = 86_400 } = {}) {
      const set = nodes ?? nodesAt(node.url)
      const dispatcher = startDispatcher({
        relational: faulty,
        log: silentLog,
        holder: holder ?? `d${dispatchers.length}`,
        nodes: () => set,
        ...createNodeCalls(),
        news: createRunNews(publisher as never, silentLog),
        ringOutbox: () => {},
        times: { ...shortTimes, ...times },
        drainMs: () => drainMs,
        retentionDays: 30,
        inputWaitS,
      })
      dispatchers.push(dispatcher)
      return dispatcher
    },
    async accept(text, given = {}) {
      const { run } = await acceptRun(relational, newRun({ message: said(text), ...given }))
      for (const dispatcher of dispatchers) dispatcher.heard(run.slug)
      return run
    },
    acceptAtOnce: async (dispatcher, text, given = {}) =>
      (await acceptRun(faulty, newRun({ message: said(text), ...given }), dispatcher.takeAtOnce)).run,
    ended(runId) {
      const ended = async () => {
        const run = await readRun(relational, runId)
        return run?.endedAt ? run : null
      }
      return eventually(`run ${runId} ends`, ended, patienceMs)
    },
    async talk(rootRunId) {
      const ended = async () => {
        const { rows } = await relational.query<{ open_runs: number }>(
          'select open_runs from platform.run_trees where root_run_id = $1',
          [rootRunId],
        )
        return rows[0]?.open_runs === 0
      }
      await eventually('the tree ends', ended, patienceMs)
      const events = await readEvents(relational, { rootRunId, after: 0, limit: 1_000 })
      return events.map(spoken)
    },
    talkSoFar: async (rootRunId) =>
      (await readEvents(relational, { rootRunId, after: 0, limit: 1_000 })).length,
    all: async () => (await listRuns(relational, { own: null, limit: 10_000 })).runs.reverse(),
    async close() {
      await Promise.all(dispatchers.splice(0).map((dispatcher) => dispatcher.close()))
    },
  }
  return world
}

function spoken({ event }: StoredEvent): string {
  return `${event.author}: ${(event.content?.parts ?? []).map(({ text }) => text ?? '').join('')}`
}

function databaseAway(): AppError {
  return new AppError('relational_engine_unavailable', 'The relational engine is away.')
}

/** The terminal states that were published of each run. */
export function endsOf(news: readonly RunEventRecord[]): Map<string, Set<string>> {
  const ends = new Map<string, Set<string>>()
  for (const { run_id, status } of news) {
    if (status === null || status === 'running') continue
    ends.set(run_id, (ends.get(run_id) ?? new Set()).add(status))
  }
  return ends
}

/** Reports to AXON, the oldest first. */
export async function reportsOf(relational: Relational): Promise<{ run_id: string; state: string }[]> {
  const { rows } = await relational.query<{ run_id: string; state: string }>(
    'select run_id, state from platform.run_reports order by created_at',
  )
  return rows
}

/** The outbox's records of tasks for fleet.events. */
export async function fleetEventsOf(relational: Relational): Promise<Record<string, unknown>[]> {
  const { rows } = await relational.query<{ value: Record<string, unknown> }>(
    `select value from platform.outbox where topic = 'fleet.events' and value->>'event' like 'task.%' order by id`,
  )
  return rows.map(({ value }) => value)
}
