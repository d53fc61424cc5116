/**
 * Dispatchers that are killed or paused in the middle of runs: another one goes on, nothing is shown twice, nothing of the
 * one before after the next began, and AXON hears of every run once.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { openPostgres } from '#engines/relational/postgres.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import { migrationFolders } from '#services/migrations.ts'
import { cancelRun } from '#services/runs/state/cancel.ts'
import { readEvents } from '#services/runs/state/read.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { openRunWorld, type RunWorld } from '../support/run-dispatchers.ts'
import { fleet } from '../support/run-nodes.ts'
import { echoScript, openScriptedNode, type Script, type ScriptedNode } from '../support/scripted-node.ts'
import { databaseUrl } from '../support/servers.ts'
import type { ChildGiven } from './runs-dispatcher-child.ts'

const childFile = fileURLToPath(new URL('./runs-dispatcher-child.ts', import.meta.url))
const times = { leaseMs: 1_500, renewMs: 400 }

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
    'truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes, platform.outbox',
  )
})

const script = (slug: string, given: Script) => node.scripts.set(slug, given)

/** What it publishes comes to `heard` with its name. */
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

test('a run of a killed dispatcher that had shown nothing is tried again by another', async () => {
  script('whale', ({ number }) => (number === 1 ? [{ hang: true }] : [{ text: 'second' }]))
  const child = startChild('first')
  const { runId } = await world.accept('go')
  await eventually('it runs', () => node.runs.length === 1)
  await kill(child)
  world.start({ holder: 'second', times })
  expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 2 })
  expect(await world.talk(runId)).toEqual(['WHALE: second'])
})

test('one that had shown an event, or a piece of one, fails', async () => {
  script('whale', () => [{ text: 'first' }, { hang: true }])
  script('pulse', () => [{ text: 'fi', partial: true }, { hang: true }])
  const shown = new Set<string>()
  const child = startChild('first', (_, news) => {
    if (news.event) shown.add(news.run_id)
  })
  const whole = await world.accept('go')
  const piece = await world.accept('go', { slug: 'pulse', streaming: true })
  await eventually('both have shown something', () => shown.size === 2)
  await kill(child)
  world.start({ holder: 'second', times })
  for (const { runId } of [whole, piece]) {
    expect(await world.ended(runId)).toMatchObject({
      status: 'failed',
      attempt: 1,
      error: { code: 'node_lost' },
    })
  }
  expect(await world.talk(whole.runId)).toEqual(['WHALE: first'])
  expect(node.runs.filter(({ app }) => app !== 'axon')).toHaveLength(2)
})

test('a canceled run of a killed dispatcher ends canceled', async () => {
  script('whale', () => [{ text: 'first' }, { hang: true }])
  const child = startChild('first')
  const { runId } = await world.accept('go')
  await eventually('it has shown something', async () => (await world.talkSoFar(runId)) === 1)
  await kill(child)
  await cancelRun(relational, runId)
  world.start({ holder: 'second', times })
  expect((await world.ended(runId)).status).toBe('canceled')
})

test('a dispatcher that was paused for longer than its lease shows nothing after the next one began', async () => {
  // The pieces of the first attempt would go on for as long as it is read.
  script('whale', async function* ({ number }) {
    if (number === 1) yield { waitMs: 300 }
    for (let n = 0; n < 40; n++) yield { text: `${number}.${n}`, ...(n % 2 ? { partial: true } : {}) }
    yield { waitMs: 50 }
  })
  const heard: { holder: string; news: RunEventRecord }[] = []
  const first = startChild('first', (holder, news) => heard.push({ holder, news }))
  const { runId } = await world.accept('go', { streaming: true })
  await eventually('the first has it', () => node.runs.length === 1)
  first.kill('SIGSTOP')
  startChild('second', (holder, news) => heard.push({ holder, news }))
  expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 2 })
  const before = heard.length
  first.kill('SIGCONT')
  let n = 0
  await eventually('the first goes on with other runs', async () => {
    const others = await Promise.all(
      Array.from({ length: 4 }, () => world.accept('go', { slug: 'pulse', sessionId: `s${n++}` })),
    )
    for (const other of others) await world.ended(other.runId)
    return heard.slice(before).some(({ holder, news }) => holder === 'first' && news.run_id !== runId)
  })
  const of = heard.filter(({ news }) => news.run_id === runId && news.event)
  expect(of.filter(({ holder }) => holder === 'first')).toEqual([])
  const events = await readEvents(relational, { rootRunId: runId, after: 0, limit: 100 })
  expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
  expect(events.every(({ event }) => event.content?.parts[0]?.text?.startsWith('2.'))).toBe(true)
})

test('one that is paused in the middle of its events shows no event behind the end of its run', async () => {
  script('whale', async function* () {
    for (let n = 0; n < 200; n++) {
      yield { text: `${n}` }
      yield { waitMs: 20 }
    }
  })
  const heard: RunEventRecord[] = []
  const first = startChild('first', (_, news) => heard.push(news))
  const { runId } = await world.accept('go')
  await eventually('it shows events', async () => (await world.talkSoFar(runId)) > 5)
  first.kill('SIGSTOP')
  world.start({ holder: 'second', times })
  expect((await world.ended(runId)).error?.code).toBe('node_lost')
  const stored = await world.talkSoFar(runId)
  first.kill('SIGCONT')
  const other = await world.accept('go', { slug: 'pulse' })
  await world.ended(other.runId)
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(await world.talkSoFar(runId)).toBe(stored)
  const seqs = heard.filter((news) => news.run_id === runId && news.seq !== null).map(({ seq }) => seq!)
  expect(Math.max(...seqs)).toBeLessThanOrEqual(stored)
  expect(new Set(seqs).size).toBe(seqs.length)
})

test('over 2,000 runs with kills every run ends once, with one report and one run that brings it', async () => {
  const total = 2_000
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
  let kills = 0
  // The older one is killed in the middle of its work, when the newer one has begun to work.
  const killing = (async () => {
    for (let round = 1; !over; round++) {
      const [victim, other] = running as [(typeof running)[0], (typeof running)[0]]
      while (!over && (published.get(other.holder) ?? 0) < 40) await pause(50)
      if (over) break
      await kill(victim.child)
      kills++
      const holder = `c${round}`
      running = [other, { holder, child: startChild(holder, hear, given) }]
    }
  })()
  try {
    await acceptMany(total)
    await eventually('all have ended', async () => (await openRuns()) === 0, 300_000)
  } finally {
    over = true
    await killing
  }
  expect(kills).toBeGreaterThan(5)
  expect(await counts()).toEqual({ unreported: 0, strange: 0, repeated: 0, trees: 0 })
}, 600_000)

/** Not faster than they are worked on; a few are canceled. */
async function acceptMany(total: number): Promise<void> {
  for (let n = 0; n < total; n += 20) {
    const some = await Promise.all(
      Array.from({ length: 20 }, (_, k) => world.accept('go', { sessionId: `s${(n + k) % 400}` })),
    )
    if (n % 100 === 0) {
      await cancelRun(relational, some[7]!.runId)
      await eventually('there is room', async () => (await openRuns()) < 200, 120_000)
    }
  }
}

async function openRuns(): Promise<number> {
  const { rows } = await relational.query<{ open: number }>(
    `select count(*) as open from platform.runs where status in ('queued', 'running')`,
  )
  return rows[0]!.open
}

async function counts() {
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
