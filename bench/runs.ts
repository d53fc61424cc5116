/** Runs through the run gateway compared with the same agent of Google ADK asked directly, its session made in both. */

import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'undici'
import { stringify } from 'yaml'
import { type AdkServer, openAdkServer } from '../scripts/servers/adk.ts'
import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { openPlatformStage } from './platform-stage.ts'
import { type Gateway, onDistributed, onEmbedded, openOrchestrator } from './runs-stage.ts'

const manyClients = 64
const manyRuns = 320
const manyRounds = 3
const oneRuns = 60
const oneRounds = 5
const referenceRuns = 60
const agent = 'two'

export const runsBench: Bench = {
  name: 'runs',
  purpose:
    'runs of an agent of Google ADK (two events 20 ms apart) through the run gateway compared with the same agent asked directly',
  async run(report) {
    const folder = mkdtempSync(join(tmpdir(), 'fl-bench-'))
    const adk = await openAdkServer()
    const axon = await openOrchestrator()
    const nodesFile = join(folder, 'nodes.yaml')
    const node = { url: adk.url, concurrency: 2 * manyClients }
    writeFileSync(nodesFile, stringify({ nodes: { [agent]: node, axon: { url: axon.url } } }))
    try {
      report('  the api_server of Google ADK serves')
      const embedded = await onEmbedded(nodesFile, (gateway) =>
        compare(adk, gateway, 'embedded', 1.5, report),
      )
      const distributed = await onDistributed(nodesFile, folder, report, (gateway) =>
        compare(adk, gateway, 'Kafka', 2, report),
      )
      return [...embedded, ...distributed, await referenceRow()]
    } finally {
      await adk.close()
      await axon.close()
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

async function compare(
  adk: AdkServer,
  gateway: Gateway,
  engines: string,
  bar: number,
  report: (text: string) => void,
): Promise<BenchRow[]> {
  const direct = directly(adk)
  const whole = through(gateway, { streams: false })
  const stream = through(gateway, { streams: true })
  return [
    await manyRow(direct, whole, engines, report),
    await oneRow(
      { direct, measured: whole, what: 'a run', engines, bar, of: ({ wholeMs }) => wholeMs },
      report,
    ),
    await oneRow(
      {
        direct,
        measured: stream,
        what: 'first event of a stream',
        engines,
        bar,
        of: ({ firstMs }) => firstMs,
      },
      report,
    ),
  ]
}

interface Took {
  firstMs: number
  wholeMs: number
}

/** Asks the agent in a session of its own; for the client of this number. */
type Ask = (client: Client, n: number) => Promise<Took>

interface Asked {
  origin: string
  ask: Ask
}

function directly({ url }: AdkServer): Asked {
  return {
    origin: url,
    async ask(client) {
      const begun = performance.now()
      const sessionId = randomUUID()
      const made = await client.request({
        method: 'POST',
        path: `/apps/${agent}/users/bench/sessions`,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ sessionId }),
      })
      await made.body.dump()
      const body = { appName: agent, userId: 'bench', sessionId, newMessage: newMessage() }
      return await answered(client, '/run_sse', body, {}, begun)
    },
  }
}

function through({ url, keys }: Gateway, { streams }: { streams: boolean }): Asked {
  return {
    origin: url,
    async ask(client, n) {
      const headers = {
        authorization: `Bearer ${keys[n % keys.length]}`,
        ...(streams ? { accept: 'text/event-stream' } : {}),
      }
      const body = { sessionId: randomUUID(), newMessage: newMessage() }
      return await answered(client, `/${agent}/run`, body, headers, performance.now())
    },
  }
}

function newMessage() {
  return { role: 'user', parts: [{ text: 'hello' }] }
}

async function answered(
  client: Client,
  path: string,
  body: object,
  headers: Record<string, string>,
  begun: number,
): Promise<Took> {
  const { statusCode, body: answer } = await client.request({
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  let text = ''
  let firstMs = Number.NaN
  for await (const chunk of answer) {
    text += chunk
    if (Number.isNaN(firstMs) && text.includes('"first"')) firstMs = performance.now() - begun
  }
  if (statusCode !== 200 || !text.includes('"second"')) {
    throw new Error(`${path} answered ${statusCode}: ${text.slice(0, 300)}`)
  }
  return { firstMs, wholeMs: performance.now() - begun }
}

async function runAll({ origin, ask }: Asked, clients: number, total: number): Promise<Took[]> {
  const took: Took[] = []
  let sent = 0
  await Promise.all(
    Array.from({ length: clients }, async (_, n) => {
      const client = new Client(origin)
      while (sent++ < total) took.push(await ask(client, n))
      await client.close()
    }),
  )
  return took
}

async function manyRow(
  direct: Asked,
  measured: Asked,
  engines: string,
  report: (text: string) => void,
): Promise<BenchRow> {
  const perSecond = async (asked: Asked) => {
    const begun = performance.now()
    await runAll(asked, manyClients, manyRuns)
    return (manyRuns * 1_000) / (performance.now() - begun)
  }
  const rates: { bare: number; rate: number }[] = []
  for (let round = 0; round <= manyRounds; round++) {
    const bare = await perSecond(direct)
    const rate = await perSecond(measured)
    report(`  ${engines}, ${manyClients} clients: ${rate.toFixed(1)} runs/s, directly ${bare.toFixed(1)}`)
    // The first warms both up.
    if (round > 0) rates.push({ bare, rate })
  }
  return {
    what: `runs, ${manyClients} clients, ${engines}`,
    unit: 'runs/s',
    measured: median(rates.map(({ rate }) => rate)),
    peer: { what: 'directly', value: median(rates.map(({ bare }) => bare)) },
    ratio: median(rates.map(({ bare, rate }) => rate / bare)),
    bar: { min: 0.5 },
  }
}

interface One {
  direct: Asked
  measured: Asked
  what: string
  engines: string
  bar: number
  of(took: Took): number
}

async function oneRow(
  { direct, measured, what, engines, bar, of }: One,
  report: (text: string) => void,
): Promise<BenchRow> {
  const p95 = async (asked: Asked) => quantile((await runAll(asked, 1, oneRuns)).map(of), 0.95)
  const rounds: { bare: number; ms: number }[] = []
  for (let round = 0; round <= oneRounds; round++) {
    const bare = await p95(direct)
    const ms = await p95(measured)
    report(`  ${engines}, ${what}: ${ms.toFixed(1)} ms, directly ${bare.toFixed(1)}`)
    if (round > 0) rounds.push({ bare, ms })
  }
  return {
    what: `p95 of ${what}, 1 client, ${engines}`,
    unit: 'ms',
    measured: median(rounds.map(({ ms }) => ms)),
    peer: { what: 'directly', value: median(rounds.map(({ bare }) => bare)) },
    ratio: median(rounds.map(({ bare, ms }) => ms / bare)),
    bar: { max: bar },
  }
}

/** The agents that the embedded platform brings: they search, and write a note. */
async function referenceRow(): Promise<BenchRow> {
  const stage = await openPlatformStage(['relational-writer'])
  const client = new Client(stage.runUrl)
  try {
    const took: number[] = []
    for (let n = -5; n < referenceRuns; n++) {
      const begun = performance.now()
      const { statusCode, body } = await client.request({
        method: 'POST',
        path: '/atlas/run',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${stage.key}` },
        body: JSON.stringify({ newMessage: { role: 'user', parts: [{ text: `what of lamp ${n}?` }] } }),
      })
      const text = await body.text()
      if (statusCode !== 200) throw new Error(`/atlas/run answered ${statusCode}: ${text.slice(0, 300)}`)
      if (n >= 0) took.push(performance.now() - begun)
    }
    return {
      what: 'p95 of a run of a reference node, 1 client, embedded',
      unit: 'ms',
      measured: quantile(took, 0.95),
    }
  } finally {
    await client.close()
    await stage.close()
  }
}
