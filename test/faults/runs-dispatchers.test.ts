/**
 * Dispatchers that are killed or paused in the middle of runs: another one goes on, nothing is shown twice, nothing
 * of the one before after the next began, and AXON gets one report of every run.
 */

import { beforeEach, expect, test } from 'vitest'
import type { RunEventRecord } from '#schemas/types.ts'
import { cancelRun } from '#services/runs/state/end.ts'
import { readEvents } from '#services/runs/state/read.ts'
import { expectRunsEndOnce, openDispatcherFaults, times } from '../support/dispatcher-faults.ts'
import { eventually } from '../support/eventually.ts'
import type { RunWorld } from '../support/run-dispatchers.ts'
import { nodesAt } from '../support/run-nodes.ts'
import type { ScriptedNode } from '../support/scripted-node.ts'

const faults = openDispatcherFaults()
const { script, startChild, kill } = faults
let world: RunWorld
let node: ScriptedNode
beforeEach(() => {
  ;({ world, node } = faults)
})

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
  await cancelRun(faults.relational, runId)
  world.start({ holder: 'second', times })
  expect((await world.ended(runId)).status).toBe('canceled')
})

test('a dispatcher that was paused for longer than its lease shows nothing after the next one began', async () => {
  const paused = Promise.withResolvers<void>()
  // The pieces of the first attempt would go on for as long as it is read.
  script('whale', async function* ({ number }) {
    if (number === 1) await paused.promise
    for (let n = 0; n < 39; n++) yield { text: `${number}.${n}`, ...(n % 2 ? { partial: true } : {}) }
    yield { waitMs: 50 }
  })
  const heard: { holder: string; news: RunEventRecord }[] = []
  const first = startChild('first', (holder, news) => heard.push({ holder, news }))
  const { runId } = await world.accept('go', { streaming: true })
  await eventually('the first has it', () => node.runs.length === 1)
  first.kill('SIGSTOP')
  paused.resolve()
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
  const events = await readEvents(faults.relational, { rootRunId: runId, after: 0, limit: 100 })
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

test('a caller whose run was with a killed dispatcher does not lose its turn', async () => {
  const gate = Promise.withResolvers<void>()
  script('whale', async function* ({ text }) {
    // The killed one has it first, and it shows nothing.
    if (text === 'single' && node.runs.filter((run) => run.text === 'single').length === 1)
      yield { hang: true }
    if (text === 'crowd 0') await gate.promise
    yield { text }
  })
  // No stall of the machine is taken for its end: then the hanging run would be tried again, and answered.
  const child = startChild('first', undefined, { concurrency: 1, times: { ...times, leaseMs: 15_000 } })
  const crowd: string[] = []
  for (let n = 0; n < 8; n++) {
    const run = await world.accept(`crowd ${n}`, { callerUid: 'crowd', sessionId: `s${n}` })
    crowd.push(run.runId)
  }
  await eventually('the first one runs', () => node.runs.length === 1)
  const single = await world.accept('single', { callerUid: 'single', sessionId: 'single' })
  gate.resolve()
  // AXON, too, is at this node, and has reports.
  const atWhale = () => node.runs.filter(({ app }) => app === 'whale').map(({ text }) => text)
  await eventually('it is the next', () => atWhale().at(-1) === 'single')
  await kill(child)
  for (const holder of ['second', 'third']) {
    world.start({ holder, times, nodes: nodesAt(node.url, ['whale'], { concurrency: 1 }) })
  }
  expect(await world.ended(single.runId)).toMatchObject({ status: 'completed', attempt: 2 })
  for (const runId of crowd) expect((await world.ended(runId)).status).toBe('completed')
  expect(atWhale().slice(0, 4)).toEqual(['crowd 0', 'single', 'single', 'crowd 1'])
})

test(
  'over 300 runs with four kills every run ends once, with one report and one run that brings it',
  () => expectRunsEndOnce(faults, { runs: 300, kills: 4 }),
  600_000,
)
