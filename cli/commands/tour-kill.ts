/** `flotilla tour --kill`: the tour on a platform of its own, which is killed in the midst of accepted work and started again. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { lookUntil } from '#lib/backoff.ts'
import { dataDirectoryOwner } from '#lib/data-directory.ts'
import { AppError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'
import type { Cli } from '../cli.ts'
import { line, showNow } from '../output.ts'
import { clientOf, runningAddresses } from './example-agents.ts'
import {
  interrupted,
  killCollection,
  questions,
  type Tour,
  type TourResult,
  timed,
  tourAgent,
  tourTag,
} from './tour-parts.ts'
import { firstHits, runTour } from './tour-steps.ts'

const again = 'npx flotilla tour --kill'
const readyMs = 180_000
/** A platform promises to stop within ten seconds. */
const stopMs = 20_000
/** Runs of a killed process are taken up when its lease is over. */
const runsEndedMs = 120_000
const pollMs = 200
const upserts = 8
const upsertPoints = 100
const runsStarted = 3
const errorsKept = 4_000
const freePorts = {
  VECTOR_GATEWAY_PORT: '0',
  MAIN_API_PORT: '0',
  RUN_GATEWAY_PORT: '0',
  HUB_PORT: '0',
  WEBHOOK_GATEWAY: '127.0.0.1:0',
}

export interface KillResult {
  /** Acknowledged when the platform was killed; `applied_points` were in the index already. */
  accepted: { points: number; applied_points: number; runs: number; notes: number }
  points_before: number
  points_after: number
  restart_ms: number
  /** Status → number of the runs that were under way. */
  runs: Record<string, number>
}

/** Throws AppError `conflict` where a platform runs on the data directory, or an engine is a server. */
export async function runKillTour(cli: Cli, quiet: boolean): Promise<TourResult & { kill: KillResult }> {
  refuseOthers(cli)
  const say = quiet ? () => {} : showNow
  let platform = await startOwn(cli)
  let kill: KillResult | undefined
  try {
    say(line`A platform of its own runs on ${homeOf(cli.env)}.`)
    const result = await runTour(cli, runningAddresses(cli, again), {
      quiet,
      async more(tour) {
        const accepted = await timed(
          tour,
          'accept work, and kill -9 in its midst',
          async () => {
            const work = await acceptWork(tour)
            await platform.kill()
            return work
          },
          ({ points, applied, runIds }) =>
            `${points} points acknowledged (${points - applied} not applied yet), ${plural(runIds.length, 'run')}, a note`,
        )
        const startedAt = performance.now()
        platform = await timed(
          tour,
          'start it again on the same data',
          () => startOwn(cli),
          () => 'ready',
        )
        kill = await checkAll(tour, accepted, Math.round(performance.now() - startedAt))
      },
    })
    return { ...result, console_url: null, kill: kill! }
  } catch (error) {
    throw cli.signal.aborted ? interrupted() : error
  } finally {
    await platform.stop()
  }
}

function refuseOthers({ env }: Cli): void {
  const home = homeOf(env)
  const { eventLog, vectors, relational } = choicesOf(env)
  for (const { embedded, variable } of [eventLog, vectors, relational]) {
    if (embedded) continue
    throw new AppError('conflict', `The tour kills only a platform on embedded engines: unset ${variable}.`)
  }
  const owner = dataDirectoryOwner(home)
  if (owner === null) return
  throw new AppError(
    'conflict',
    `A platform runs on ${home} (process ${owner}), and the tour kills only one that it has started itself. Stop that one ` +
      `with Ctrl-C and run \`${again}\` again, or take the tour without --kill.`,
  )
}

interface OwnPlatform {
  /** As `kill -9`. */
  kill(): Promise<void>
  /** As Ctrl-C; one that does not stop is killed. */
  stop(): Promise<void>
}

/** Resolves when all interfaces answer. The process ends with this one, however that ends: its channel closes then. */
async function startOwn({ env, signal }: Cli): Promise<OwnPlatform> {
  signal.throwIfAborted()
  // The file that this command was started by starts the platform as well.
  const child = spawn(process.execPath, [process.argv[1]!, 'start'], {
    env: { LOG_LEVEL: 'warn', ...freePorts, ...env, FLOTILLA_HOME: homeOf(env), FLOTILLA_LAUNCHED: '1' },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const exited = once(child, 'exit')
  async function end(first: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill(first)
    const timer = setTimeout(() => child.kill('SIGKILL'), stopMs)
    await exited
    clearTimeout(timer)
  }
  let errors = ''
  child.stderr!.on('data', (chunk) => {
    errors = `${errors}${chunk}`.slice(-errorsKept)
  })
  const ready = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout! }).on('line', (text) => {
      if (text === 'ready') resolve()
    })
  })
  const limit = AbortSignal.any([signal, AbortSignal.timeout(readyMs)])
  const aborted = once(limit, 'abort')
  const outcome = await Promise.race([
    ready.then(() => 'ready'),
    exited.then(() => 'ended'),
    aborted.then(() => 'late'),
  ])
  if (outcome === 'ready') return { kill: () => end('SIGKILL'), stop: () => end('SIGTERM') }
  await end('SIGTERM')
  signal.throwIfAborted()
  const why = outcome === 'ended' ? 'ended' : `was not ready within ${readyMs / 1_000} s`
  throw new AppError('internal_error', `The platform for the tour ${why}. Its last lines:\n${errors.trim()}`)
}

interface Accepted {
  operations: string[]
  /** Acknowledged, and in the index when it was killed. */
  points: number
  applied: number
  runIds: string[]
  note: number
  before: number
}

/** Resolves with what the platform has acknowledged; the last of it a moment ago. */
async function acceptWork({ cli, client }: Tour): Promise<Accepted> {
  const { signal } = cli
  const before = await client.count(killCollection, { signal })
  const titles = Array.from({ length: upsertPoints }, (_, n) => `Accepted before the kill, ${n}`)
  const { data } = await client.embeddings(titles)
  const upsert = async (part: number) => {
    const points = titles.map((title, n) => ({
      id: `tour-kill-${part}-${n}`,
      vector: data[n]!.embedding,
      payload: { title, status: 'active', tags: [tourTag], updated_at: new Date().toISOString() },
    }))
    return (await client.upsert(killCollection, points, { signal })).operation_id
  }
  const start = async () => {
    const run = await client.runs.stream('atlas', questions[0]!.query, { sessionId: 'tour-kill', signal })
    return run.runId
  }
  const parts = Array.from({ length: upserts }, (_, part) => part)
  const first = await Promise.all(parts.slice(0, upserts / 2).map(upsert))
  const [later, note, runIds] = await Promise.all([
    Promise.all(parts.slice(upserts / 2).map(upsert)),
    client.notes.create(
      { subject: 'Written before the kill', body: 'It is here after the kill as well.' },
      { signal },
    ),
    Promise.all(Array.from({ length: runsStarted }, start)),
  ])
  const operations = [...first, ...later]
  const states = await Promise.all(operations.map((id) => client.operation(id)))
  const applied = states.filter(({ status }) => status === 'applied').length * upsertPoints
  return { operations, points: upserts * upsertPoints, applied, runIds, note: note.id, before }
}

/** Throws AppError `internal_error` where something that was acknowledged is gone. */
async function checkAll(before: Tour, accepted: Accepted, restartMs: number): Promise<KillResult> {
  const { cli, result } = before
  const { signal } = cli
  const addresses = runningAddresses(cli, again)
  const client = clientOf(addresses, tourAgent.agent_id, before.keyFile)
  const tour: Tour = { ...before, client, addresses }
  try {
    const after = await timed(
      tour,
      'find all points that were acknowledged',
      async () => {
        for (const operation of accepted.operations) {
          const { status, error } = await client.waitFor(operation, { signal })
          demand(status === 'applied', `an upsert is ${status}: ${error ?? ''}`)
        }
        const count = await client.count(killCollection, { signal })
        demand(count === accepted.before + accepted.points, `${killCollection} has ${count} points`)
        return count
      },
      (count) => `${accepted.before} before, ${accepted.points} acknowledged, ${count} now`,
    )
    await timed(
      tour,
      'find the note',
      () => client.notes.get(accepted.note),
      ({ id, subject }) => `note ${id}, ${subject}`,
    )
    await timed(
      tour,
      'search again',
      async () => {
        const [first] = result.searches
        const { hits } = await firstHits(tour, first!.query)
        demand(hits[0]?.id === first!.hits[0]!.id, `the first hit is ${hits[0]?.id}`)
        return hits[0]!
      },
      ({ title }) => `the same first hit, ${title}`,
    )
    const runs = await timed(
      tour,
      'wait for the runs',
      () => endedRuns(tour, accepted.runIds),
      (counts) =>
        Object.entries(counts)
          .map(([status, count]) => `${count} ${status}`)
          .join(', '),
    )
    if ('failed (node_lost)' in runs) {
      tour.say(
        '  node_lost: its answer had begun at the kill, and what may have had effects is not done again.',
      )
    }
    const { points, applied, runIds } = accepted
    return {
      accepted: { points, applied_points: applied, runs: runIds.length, notes: 1 },
      points_before: accepted.before,
      points_after: after,
      restart_ms: restartMs,
      runs,
    }
  } finally {
    await client.close()
  }
}

/** A run whose answer had begun fails as `node_lost`: the platform does not repeat what may have had effects. */
async function endedRuns({ cli, client }: Tour, runIds: readonly string[]): Promise<Record<string, number>> {
  const look = async () => {
    const runs = await Promise.all(runIds.map((id) => client.runs.get(id)))
    return runs.every(({ endedAt }) => endedAt !== null) ? runs : undefined
  }
  const late = () => fault(`runs have not ended: ${runIds.join(', ')}`)
  const runs = await lookUntil(look, {
    everyMs: pollMs,
    withinMs: runsEndedMs,
    signal: cli.signal,
    late,
  })
  const ended = runs.map(({ status, error }) => (error ? `${status} (${error.code})` : status))
  return Object.fromEntries([...Map.groupBy(ended, (one) => one)].map(([one, all]) => [one, all.length]))
}

function demand(condition: boolean, otherwise: string): void {
  if (!condition) fault(otherwise)
}

function fault(found: string): never {
  throw new AppError('internal_error', `After the kill ${found}. Please report this.`)
}
