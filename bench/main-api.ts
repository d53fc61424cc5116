/** The main API compared with bare routes that verify, or sign, the same tokens: an authenticated GET, and trades of keys. */

import { type ChildProcess, fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'undici'
import { sleep } from '#lib/backoff.ts'
import startEnvironment from '../bin/start-environment.json' with { type: 'json' }
import { type Bench, type BenchRow, median, quantile } from './bench.ts'

const keysWanted = 3_000
const readRounds = 15
const reads = 1_000
/** A key may be traded ten times a minute, five of them in six seconds. */
const tradeRounds = 5
const keyBurst = 5
const keyWindowMs = 6_000
const workers = 8
/** Each may trade a hundred times a second: with so many, all rounds together stay below that, however fast they are. */
const addresses = 200

interface Stage {
  baseUrl: string
  floorUrl: string
  idToken: string
  keys: string[]
  close(): Promise<void>
}

export const mainApiBench: Bench = {
  name: 'main-api',
  purpose:
    'GET /api/v1/me compared with a bare route that verifies the same token, and trades of 3,000 agent keys compared with a bare route that signs the same custom token',
  async run(report) {
    const stage = await openStage()
    try {
      const rows = [await readRow(stage, 1, report), await readRow(stage, 8, report)]
      return [...rows, ...(await tradeRows(stage, report))]
    } finally {
      await stage.close()
    }
  },
}

async function readRow(stage: Stage, clients: number, report: (text: string) => void): Promise<BenchRow> {
  const headers = { authorization: `Bearer ${stage.idToken}` }
  const platform: number[] = []
  const floor: number[] = []
  for (let round = 0; round <= readRounds; round++) {
    const one = quantile(await readAll(stage.baseUrl, '/api/v1/me', headers, clients), 0.95)
    const other = quantile(await readAll(stage.floorUrl, '/me', headers, clients), 0.95)
    // The first warms both up.
    if (round === 0) continue
    platform.push(one)
    floor.push(other)
  }
  const ratio = median(platform.map((value, n) => value / floor[n]!))
  report(`  ${clients} clients: ${median(platform).toFixed(3)} ms, bare ${median(floor).toFixed(3)} ms`)
  return {
    what: `p95 of GET /api/v1/me, ${clients} client${clients === 1 ? '' : 's'}`,
    unit: 'ms',
    measured: median(platform),
    peer: { what: 'bare route that verifies by jose', value: median(floor) },
    ratio,
    bar: { max: 1.3 },
    note: `${readRounds} rounds of ${reads} requests`,
  }
}

async function readAll(
  origin: string,
  path: string,
  headers: Record<string, string>,
  clients: number,
): Promise<number[]> {
  const took: number[] = []
  let sent = 0
  await Promise.all(
    Array.from({ length: clients }, async () => {
      const client = new Client(origin)
      while (sent++ < reads) {
        const begun = performance.now()
        const answer = await client.request({ method: 'GET', path, headers })
        const text = await answer.body.text()
        if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode} ${text}`)
        took.push(performance.now() - begun)
      }
      await client.close()
    }),
  )
  return took
}

async function tradeRows(stage: Stage, report: (text: string) => void): Promise<BenchRow[]> {
  const rates: number[] = []
  const floors: number[] = []
  const endedAt: number[] = []
  for (let round = 0; round <= tradeRounds; round++) {
    // Every key has room for another trade again.
    const freeAt = (endedAt[round - keyBurst] ?? Number.NEGATIVE_INFINITY) + keyWindowMs
    await sleep(Math.max(0, freeAt - performance.now()))
    rates.push(await tradeAll(stage.baseUrl, '/api/v1/auth/agent', stage.keys))
    endedAt.push(performance.now())
    floors.push(await tradeAll(stage.floorUrl, '/auth', stage.keys))
    report(`  trades: ${rates.at(-1)!.toFixed(0)}/s, bare ${floors.at(-1)!.toFixed(0)}/s`)
  }
  const [first, ...later] = rates.map((rate, n) => ({ rate, floor: floors[n]! }))
  const what = `trades of ${keysWanted.toLocaleString('en')} agent keys, ${workers} clients`
  const note = `POST /api/v1/auth/agent, from ${addresses} addresses of the loopback, each of which has a limit`
  const bare = 'bare route that signs the same token'
  const floor = median(later.map((one) => one.floor))
  return [
    {
      what,
      unit: 'trades/s',
      measured: median(later.map(({ rate }) => rate)),
      peer: { what: bare, value: floor },
      ratio: median(later.map((one) => one.rate / one.floor)),
      bar: { min: 0.6 },
      note,
    },
    {
      what: `the same, the first time of each key: it is looked up in the database`,
      unit: 'trades/s',
      measured: first!.rate,
      peer: { what: bare, value: floor },
    },
  ]
}

/** Each key once; the trades a second. What connecting costs does not count. */
async function tradeAll(origin: string, path: string, keys: readonly string[]): Promise<number> {
  const bodies = keys.map((key) => JSON.stringify({ key }))
  const clients = Array.from({ length: addresses }, (_, n) => {
    return new Client(origin, { localAddress: `127.0.1.${n + 1}` })
  })
  await Promise.all(clients.map(connect))
  let next = 0
  const begun = performance.now()
  await Promise.all(
    Array.from({ length: workers }, async () => {
      for (let n = next++; n < bodies.length; n = next++) {
        const answer = await clients[n % addresses]!.request({
          method: 'POST',
          path,
          headers: { 'content-type': 'application/json' },
          body: bodies[n]!,
        })
        const text = await answer.body.text()
        if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode} ${text}`)
      }
    }),
  )
  const tookS = (performance.now() - begun) / 1_000
  await Promise.all(clients.map((client) => client.close()))
  return bodies.length / tookS
}

/** Requests a path that does not exist, to open the connection. */
async function connect(client: Client): Promise<void> {
  const { body } = await client.request({ method: 'GET', path: '/' })
  await body.dump()
}

async function openStage(): Promise<Stage> {
  const home = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  const child = fork(new URL('./main-api-process.ts', import.meta.url), [home, String(keysWanted)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // As `flotilla start` begins.
    env: { ...startEnvironment, ...process.env },
  })
  const serving = await served(child)
  return {
    ...serving,
    async close() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
      rmSync(home, { recursive: true, force: true })
    },
  }
}

function served(child: ChildProcess): Promise<Omit<Stage, 'close'>> {
  return new Promise((resolve, reject) => {
    child.once('message', (message) => resolve(message as Omit<Stage, 'close'>))
    child.once('exit', (code) => reject(new Error(`the platform's process ended with code ${code}`)))
  })
}
