/**
 * What a search, an upsert and doing nothing cost on distributed engines, and where. Once at ten requests a second of many
 * agents, where hardly anything shares a batch, and once as fast as the platform goes.
 */

import { setTimeout as pause } from 'node:timers/promises'
import type { Bench, BenchRow } from './bench.ts'
import { type DistributedStage, openDistributedStage, warmBrokers } from './distributed-stage.ts'
import { inspectorUrlOf } from './inspector.ts'
import {
  engines,
  lineOf,
  measure,
  openAgents,
  type Price,
  searches,
  send,
  table,
  timesOf,
  upserts,
  type Work,
} from './price-measure.ts'
import { profileOf } from './price-profile.ts'

const slowRequests = 200
const idleSeconds = 30
const quietMs = 30_000
const warmUp = { searches: 3_000, large: 30 }

export const priceBench: Bench = {
  name: 'price',
  purpose:
    'what a request costs on three brokers, Postgres with the mirror and Qdrant, and where: processor time, requests of the brokers by kind, their threads, functions of the platform',
  async run(report) {
    const more = { NODE_OPTIONS: '--inspect=127.0.0.1:0' }
    const stage = await openDistributedStage(report, [], more, { measured: true })
    try {
      const keys = await openAgents({ ...stage, vectorUrl: stage.platform.vectorUrl })
      await warm(stage, keys, report)
      const rest = await measure(stage, 'rest, a second', idleSeconds, () => pause(idleSeconds * 1_000))
      report(lineOf(rest))
      const prices = [rest]
      for (const work of works()) {
        const one = await priceOf(stage, work, keys, rest)
        report(lineOf(one))
        prices.push(one)
      }
      return { rows: prices.flatMap(rowsOf), more: tablesOf(prices) }
    } finally {
      await stage.close()
    }
  },
}

const fast = { search: [1, 8], upsert: [4] }

function works(): Work[] {
  const search = searches()
  return [
    { ...search, what: 'a search, ten a second', requests: slowRequests },
    ...fast.search.map((clients) => ({
      ...search,
      what: `a search, ${clients} at once`,
      clients,
      requests: 600,
    })),
    { ...upserts(5), what: 'an upsert of 5, ten a second', requests: slowRequests },
    ...[5, 100, 500].flatMap((points) =>
      fast.upsert.map((clients) => ({
        ...upserts(points),
        what: `an upsert of ${points}, ${clients} at once`,
        clients,
        requests: Math.max(40, 1_000 / points),
      })),
    ),
  ]
}

async function warm(stage: DistributedStage, keys: string[], report: (text: string) => void): Promise<void> {
  report('  warming up')
  const clients = 4
  await warmBrokers(stage)
  for (const points of [100, 500]) {
    await send(
      [stage.platform.vectorUrl],
      { ...upserts(points), what: '', clients, requests: warmUp.large },
      keys,
    )
  }
  await send(
    [stage.platform.vectorUrl],
    { ...searches(), what: '', clients, requests: warmUp.searches },
    keys,
  )
  await stage.caughtUp()
  // Brokers compile, and Qdrant indexes, for a while afterwards.
  await pause(quietMs)
}

async function priceOf(stage: DistributedStage, work: Work, keys: string[], rest: Price): Promise<Price> {
  const whole = async () => {
    await send([stage.platform.vectorUrl], work, keys)
    await stage.caughtUp()
  }
  const begun = performance.now()
  const spent = await measure(stage, work.what, work.requests, whole)
  const seconds = (performance.now() - begun) / 1_000
  const functions = await profileOf(inspectorUrlOf(stage.platform.output()), whole)
  const eachRequest = (value: number) => value / work.requests
  const less = (value: number, atRest: number) => Math.max(0, value - (atRest * seconds) / work.requests)
  return {
    what: work.what,
    ms: timesOf((name) => less(spent.ms[name], rest.ms[name])),
    requests: new Map([...spent.requests].map(([name, n]) => [name, less(n, rest.requests.get(name) ?? 0)])),
    threads: new Map([...spent.threads].map(([name, ms]) => [name, less(ms, rest.threads.get(name) ?? 0)])),
    functions: new Map([...functions].map(([name, ms]) => [name, eachRequest(ms)])),
  }
}

/** What a request of an agent may cost Kafka, and what rest may, as shares of a core. */
const bars: Record<string, { kafka: number; platform?: number }> = {
  'a search, ten a second': { kafka: 14 },
  'an upsert of 5, ten a second': { kafka: 9 },
}

function rowsOf({ what, ms }: Price): BenchRow[] {
  const bar = bars[what]
  return engines.map((name) => ({
    what: `${what}: ${name}`,
    unit: 'ms',
    measured: ms[name],
    ...(name === 'kafka' && bar ? { bar: { max: bar.kafka } } : {}),
  }))
}

function tablesOf(prices: Price[]): string {
  const functions = prices.filter((price) => price.functions !== undefined)
  return [
    table('Requests of the brokers, for one', prices, (price) => price.requests),
    table('Threads of the brokers, ms of the processor for one', prices, (price) => price.threads),
    table('Main thread of the platform, ms for one', functions, (price) => price.functions!),
  ].join('\n\n')
}
