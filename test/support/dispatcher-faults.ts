/** Dispatchers in processes of their own that tests kill or pause, on a database and a scripted node. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { openPostgres } from '#engines/relational/postgres.ts'
import { sleep } from '#lib/backoff.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { migrationFolders } from '#services/migrations.ts'
import { cancelRun } from '#services/runs/state/end.ts'
import { eventually } from './eventually.ts'
import { silentLog } from './relational.ts'
import { openRunWorld, type RunWorld } from './run-dispatchers.ts'
import { fleet } from './run-nodes.ts'
import type { ChildGiven } from './runs-dispatcher-child.ts'
import { echoScript, openScriptedNode, type Script, type ScriptedNode } from './scripted-node.ts'
import { databaseUrl } from './servers.ts'

const childFile = fileURLToPath(new URL('./runs-dispatcher-child.ts', import.meta.url))
/** A dispatcher that is not paused renews its lease in time on a busy machine, too. */
export const times = { leaseMs: 3_000, renewMs: 500 }
/** Only ends a hang. */
const patienceMs = 300_000

export interface DispatcherFaults {
  readonly relational: Relational
  readonly node: ScriptedNode
  readonly world: RunWorld
  script(slug: string, given: Script): void
  /** Starts a dispatcher; `heard` gets what it publishes, with its name. */
  startChild(
    holder: string,
    heard?: (holder: string, news: RunEventRecord) => void,
    given?: Partial<ChildGiven>,
  ): ChildProcess
  kill(child: ChildProcess): Promise<void>
}

/** One database for the file, emptied after each test; a node of its own for each test. */
export function openDispatcherFaults(): DispatcherFaults {
  let url: string
  let relational: Relational
  let node: ScriptedNode
  let world: RunWorld
  const children = new Set<ChildProcess>()

  beforeAll(async () => {
    url = await databaseUrl()
    relational = await openPostgres({ url, log: silentLog })
    await relational.query('create extension if not exists vector')
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  beforeEach(async () => {
    node = await openScriptedNode(Object.fromEntries(fleet.map((slug) => [slug, echoScript])))
    world = openRunWorld(relational, node)
  })
  afterEach(async () => {
    for (const child of children) child.kill('SIGKILL')
    children.clear()
    await world.close()
    await node.close()
    await relational.query(
      'truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes, platform.run_turns, platform.outbox',
    )
  })

  function startChild(
    holder: string,
    heard: (holder: string, news: RunEventRecord) => void = () => {},
    given: Partial<ChildGiven> = {},
  ): ChildProcess {
    const all: ChildGiven = { databaseUrl: url, nodeUrl: node.url, holder, times, ...given }
    const { PATH = '', HOME = '' } = process.env
    const child = fork(childFile, [JSON.stringify(all)], { env: { PATH, HOME } })
    child.on('message', (news) => heard(holder, news as RunEventRecord))
    children.add(child)
    return child
  }

  async function kill(child: ChildProcess): Promise<void> {
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
    children.delete(child)
  }

  return {
    get relational() {
      return relational
    },
    get node() {
      return node
    },
    get world() {
      return world
    },
    script: (slug, given) => node.scripts.set(slug, given),
    startChild,
    kill,
  }
}

export interface ManyRuns {
  /** At least so many, and until `kills` dispatchers were killed. */
  runs: number
  kills: number
}

/** Runs end once, with one report and one run that brings it, while dispatchers are killed at work. */
export async function expectRunsEndOnce(faults: DispatcherFaults, { runs, kills }: ManyRuns): Promise<void> {
  const { script, startChild, kill, relational } = faults
  script('whale', ({ number }) => [
    ...(number % 10 === 0 ? [{ waitMs: 30 }] : []),
    ...(number % 50 === 0 ? [{ cut: true } as const] : []),
    { text: 'one' },
    ...(number % 40 === 0 ? [{ raise: 'broken' }] : []),
    ...(number % 30 === 0 ? [{ text: '@PULSE look' }] : []),
  ])
  script('axon', () => [{ text: 'noted' }])
  const given = { concurrency: 16 }
  const published = new Map<string, number>()
  const hear = (holder: string) => published.set(holder, (published.get(holder) ?? 0) + 1)
  let running = ['a', 'b'].map((holder) => ({ holder, child: startChild(holder, hear, given) }))
  let over = false
  let killed = 0
  // The older one is killed in the middle of its work, when the newer one has begun to work.
  const killing = (async () => {
    for (let round = 1; !over; round++) {
      const [victim, other] = running as [(typeof running)[0], (typeof running)[0]]
      while (!over && (published.get(other.holder) ?? 0) < 40) await sleep(50)
      if (over) break
      await kill(victim.child)
      killed++
      const holder = `c${round}`
      running = [other, { holder, child: startChild(holder, hear, given) }]
    }
  })()
  try {
    await acceptMany(faults, (accepted) => accepted < runs || killed < kills)
    await eventually('all have ended', async () => (await openRuns(relational)) === 0, patienceMs)
  } finally {
    over = true
    await killing
  }
  expect(await counts(relational)).toEqual({ unreported: 0, strange: 0, repeated: 0, trees: 0 })
}

/** Not faster than they are worked on; a few are canceled. */
async function acceptMany(
  { relational, world }: DispatcherFaults,
  goesOn: (accepted: number) => boolean,
): Promise<void> {
  for (let n = 0; goesOn(n); n += 20) {
    const some = await Promise.all(
      Array.from({ length: 20 }, (_, k) =>
        world.accept('go', { sessionId: `s${(n + k) % 400}`, callerUid: `caller ${k}` }),
      ),
    )
    if (n % 100 === 0) {
      await cancelRun(relational, some[7]!.runId)
      await eventually('there is room', async () => (await openRuns(relational)) < 200, patienceMs)
    }
  }
}

async function openRuns(relational: Relational): Promise<number> {
  const { rows } = await relational.query<{ open: number }>(
    `select count(*) as open from platform.runs where status in ('queued', 'running')`,
  )
  return rows[0]!.open
}

async function counts(relational: Relational) {
  const { rows } = await relational.query(
    `select
       (select count(*) from platform.runs r left join platform.run_reports p on p.run_id = r.run_id
        where r.slug <> 'axon' and p.run_id is null) as unreported,
       (select count(*) from platform.run_reports p left join platform.runs r on r.run_id = p.report_run_id
        where r.run_id is null or p.state <> case r.status when 'completed' then 'delivered' else 'undelivered' end) as strange,
       (select count(*) from (select value->>'task_id' from platform.outbox where topic = 'fleet.events'
          and value->>'event' like 'task.%' group by 1 having count(*) > 1) as twice) as repeated,
       (select count(*) from platform.run_trees where open_runs <> 0) as trees`,
  )
  return rows[0]
}
