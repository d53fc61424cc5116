/** Steady work of agents on both platforms, one kind of call after the other, and what each call was answered. */

import { type Client, ProblemError } from '#client/client.ts'
import { sleep, withTimeout } from '#lib/backoff.ts'
import type { FleetPlatform } from './platforms.ts'
import { createPoints, type FleetPoints } from './points.ts'

export const kinds = ['upsert', 'search', 'note', 'run', 'event'] as const
export type Kind = (typeof kinds)[number]

/** Calls of one kind at one platform, one after the other. */
export interface Line {
  kind: Kind
  platform: string
  calls: CallOutcome[]
}

export interface CallOutcome {
  begunAt: number
  endedAt: number
  /** Null: it succeeded. Else a status and a code; without an answer the code alone. */
  fault: string | null
}

/** Acknowledged work, which must be there whatever happened. */
export interface Acknowledged {
  points: FleetPoints
  /** Id of a note → its subject. */
  notes: Map<number, string>
  /** Ids of runs that were accepted → whose they are. */
  runs: Map<string, Client>
  /** Sequences of events that were accepted. */
  events: Set<number>
}

export interface FleetLoad {
  lines: Line[]
  acknowledged: Acknowledged
  /** Begins; `stop` resolves when no call is under way, and throws when one hangs. */
  start(): void
  stop(): Promise<void>
}

const pauseMs: Record<Kind, number> = { upsert: 100, search: 100, note: 250, run: 400, event: 200 }
const runMsMax = 15_000
/** Every call has a time limit. */
const stopMsMax = 90_000

export function createFleetLoad(platforms: readonly FleetPlatform[]): FleetLoad {
  const acknowledged: Acknowledged = {
    points: createPoints(),
    notes: new Map(),
    runs: new Map(),
    events: new Set(),
  }
  const lines = platforms.flatMap((platform) =>
    kinds.map((kind) => ({ line: { kind, platform: platform.name, calls: [] } as Line, platform })),
  )
  let on = false
  let running: Promise<void>[] = []
  async function run({ line, platform }: (typeof lines)[number]): Promise<void> {
    const call = callOf(line.kind, platform, acknowledged)
    while (on) {
      line.calls.push(await outcomeOf(call))
      await sleep(pauseMs[line.kind])
    }
  }
  return {
    lines: lines.map(({ line }) => line),
    acknowledged,
    start() {
      on = true
      running = lines.map(run)
    },
    async stop() {
      on = false
      await Promise.all(
        running.map((one, n) => withTimeout(one, stopMsMax, () => new Error(hangs(lines[n]!.line)))),
      )
    },
  }
}

function hangs({ kind, platform, calls }: Line): string {
  return `the ${calls.length + 1}th ${kind} at ${platform} never ends`
}

async function outcomeOf(call: () => Promise<void>): Promise<CallOutcome> {
  const begunAt = performance.now()
  const fault = await call().then(() => null, faultOf)
  return { begunAt, endedAt: performance.now(), fault }
}

function faultOf(error: unknown): string {
  if (!(error instanceof ProblemError)) {
    if (error instanceof Error && error.name === 'TimeoutError') return 'timeout'
    throw error
  }
  return error.status === 0 ? error.code : `${error.status} ${error.code}`
}

let numbers = 0

function callOf(
  kind: Kind,
  { name, client }: FleetPlatform,
  { points, notes, runs, events }: Acknowledged,
): () => Promise<void> {
  switch (kind) {
    case 'upsert':
      return () => points.write(name, client)
    case 'search':
      return async () => void (await client.search(points.question()))
    case 'note':
      return async () => {
        const subject = `note ${++numbers} of ${name}`
        const { id } = await client.notes.create({ subject, body: 'Written under load.' })
        notes.set(id, subject)
      }
    case 'run':
      return async () => {
        const text = `run ${++numbers} of ${name}`
        const signal = AbortSignal.timeout(runMsMax)
        const stream = await client.runs.stream('whale', text, { signal })
        runs.set(stream.runId, client)
        for await (const _ of stream);
        const { status, error } = stream.result!
        if (status !== 'completed') throw problemOf(error?.code ?? status)
      }
    case 'event':
      return async () => {
        const event = { event: 'task.completed', agent: 'ATLAS', task_id: `load-${++numbers}` } as const
        const { deliveries } = await client.webhooks.fire(event)
        for (const { sequence } of deliveries) events.add(sequence)
      }
  }
}

/** A run that was accepted and failed. */
function problemOf(code: string): ProblemError {
  return new ProblemError({
    code,
    status: 200,
    detail: 'the run failed',
    requestId: undefined,
    retryAfter: undefined,
    errors: [],
  })
}
