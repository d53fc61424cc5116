/**
 * What grows with the number of instances: the same work of the same agents for one gateway process and one of workers, and
 * for eight of each, on the same engines.
 */

import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import type { ServiceProcess } from '../test/support/distributed-process.ts'
import type { Bench, BenchRow } from './bench.ts'
import { type DistributedEngines, difference, openDistributedEngines } from './distributed-stage.ts'
import {
  engines,
  lineOf,
  measure,
  openAgents,
  type Price,
  searches,
  send,
  table,
  upserts,
} from './price-measure.ts'

const many = 8
const workers = ['vector-writer', 'audit-writer', 'relational-writer', 'note-indexer', 'outbox-publisher']
const requests = 200
const restSeconds = 20
/** What a load leaves in the log is worked off by then. */
const quietMs = 6_000

export const instancesBench: Bench = {
  name: 'instances',
  purpose: `what grows with instances: one gateway and one process of workers, then ${many} of each, with the same work at ten requests a second`,
  async run(report) {
    const stage = await openDistributedEngines(report, { measured: true })
    try {
      const running: ServiceProcess[] = []
      await addPair(stage, running)
      const volume = running[0]!.home
      const keys = await openAgents({ ...stage, volume, vectorUrl: running[0]!.vectorUrl })
      await work(running, keys, 300)
      const one = await measureAll(stage, running, keys, report)
      const begun = performance.now()
      const joins = await measure(withCost(stage, running), 'joining', 1, async () => {
        for (let n = 1; n < many; n++) await addPair(stage, running)
        await pause(quietMs)
      })
      report(`  ${many} of each after ${Math.round((performance.now() - begun) / 1_000)} s`)
      await work(running, keys, 300)
      const eight = await measureAll(stage, running, keys, report)
      const joined = ['JoinGroup', 'SyncGroup'].map((kind) => joins.requests.get(kind) ?? 0)
      return {
        rows: rowsOf(one, eight, joined),
        more: table(
          'Requests of the brokers, for one',
          [...one.prices, ...eight.prices],
          (price) => price.requests,
        ),
      }
    } finally {
      await stage.close()
    }
  },
}

interface Measured {
  instances: number
  prices: Price[]
  /** Connections that brokers and Postgres hold. */
  connections: { kafka: number; postgres: number }
}

async function addPair({ processes }: DistributedEngines, running: ServiceProcess[]): Promise<void> {
  running.push(await processes.start(['vector-gateway']), await processes.start(workers))
}

function withCost(stage: DistributedEngines, running: ServiceProcess[]) {
  const cost = async (work: () => Promise<unknown>) => {
    const before = stage.used(running)
    await work()
    return difference(stage.used(running), before)
  }
  return { ...stage, cost }
}

async function work(
  running: readonly ServiceProcess[],
  keys: readonly string[],
  count: number,
  which = [searches(), upserts(5)],
): Promise<void> {
  const urls = running.map(({ vectorUrl }) => vectorUrl).filter((url) => url !== '')
  for (const one of which) await send(urls, { ...one, what: '', requests: count }, keys)
  await pause(quietMs)
}

async function measureAll(
  stage: DistributedEngines,
  running: ServiceProcess[],
  keys: readonly string[],
  report: (text: string) => void,
): Promise<Measured> {
  const instances = running.length / 2
  const withIts = withCost(stage, running)
  const prices = [
    await measure(withIts, `${instances}: rest, a second`, restSeconds, () => pause(restSeconds * 1_000)),
    await measure(withIts, `${instances}: a search`, requests, () =>
      work(running, keys, requests, [searches()]),
    ),
    await measure(withIts, `${instances}: an upsert of 5`, requests, () =>
      work(running, keys, requests, [upserts(5)]),
    ),
  ]
  for (const price of prices) report(lineOf(price))
  const connections = {
    kafka: stage.kafka.brokers.reduce(
      (sum, broker) => sum + connectionsTo(Number(broker.split(':').at(-1))),
      0,
    ),
    postgres: await postgresConnections(stage.env.DATABASE_URL!),
  }
  return { instances, prices, connections }
}

/** Established ones, as the system lists them. */
function connectionsTo(port: number): number {
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const lines = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/net/${table}`, 'utf8').split('\n'))
  return lines.filter((line) => line.split(/\s+/)[2]?.endsWith(end) && / 01 /.test(line)).length
}

async function postgresConnections(connectionString: string): Promise<number> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    const { rows } = await client.query<{ count: string }>(
      `select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`,
    )
    return Number(rows[0]!.count)
  } finally {
    await client.end()
  }
}

function rowsOf(one: Measured, eight: Measured, [joins = 0, syncs = 0]: number[]): BenchRow[] {
  const row = (what: string, unit: string, of: (measured: Measured) => number): BenchRow => ({
    what,
    unit,
    measured: of(eight),
    peer: { what: 'one of each', value: of(one) },
  })
  const names = ['rest, a second', 'a search', 'an upsert of 5']
  return [
    ...names.flatMap((name, n) => [
      ...engines.map((engine) => row(`${name}: ${engine}`, 'ms', ({ prices }) => prices[n]!.ms[engine])),
      row(`${name}: requests of the brokers`, 'requests', ({ prices }) =>
        [...prices[n]!.requests].reduce((sum, [, count]) => sum + count, 0),
      ),
    ]),
    row('connections of the brokers', '', ({ connections }) => connections.kafka),
    row('connections of Postgres', '', ({ connections }) => connections.postgres),
    { what: `JoinGroup until ${many} of each work`, unit: 'requests', measured: joins },
    { what: `SyncGroup until ${many} of each work`, unit: 'requests', measured: syncs },
  ]
}
