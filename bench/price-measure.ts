/** What the benches `price` and `instances` share: requests of agents, and what they cost brokers and processes. */

import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '#client/client.ts'
import type { KafkaCluster } from '../scripts/servers/kafka.ts'
import type { Processes } from '../test/support/distributed-process.ts'
import { type ProcessorTimes, provision } from './distributed-stage.ts'
import { openCaller } from './load.ts'
import { createPointSource } from './points.ts'
import type { Shares } from './price-profile.ts'
import { threadSeconds } from './processor-time.ts'

const agentsOfLoad = 24
const perSecond = 10
const requestsBeans = 'kafka.network:type=RequestMetrics,name=RequestsPerSec,*'
export const engines = ['platform', 'kafka', 'qdrant', 'postgres'] as const

export interface Work {
  what: string
  path: string
  bodies: Buffer[]
  /** Requests at once; absent: ten a second, whenever they are answered. */
  clients?: number
  requests: number
}

/** All of one request; of rest, of one second. */
export interface Price {
  what: string
  /** Milliseconds of the processor. */
  ms: ProcessorTimes
  /** Requests of the brokers, and milliseconds of their threads. */
  requests: Shares
  threads: Shares
  /** Milliseconds of the platform's main thread; absent where it was not asked. */
  functions?: Shares
}

export function searches() {
  const source = createPointSource(99)
  const body = () => JSON.stringify({ collection: 'knowledgebase', vector: source.vector(), limit: 10 })
  return { path: '/v1/vectors/search', bodies: Array.from({ length: 200 }, () => Buffer.from(body())) }
}

/** The points are replaced again and again, so that the collection does not grow. */
export function upserts(points: number) {
  const source = createPointSource(points)
  const body = (n: number) => ({
    collection: 'knowledgebase',
    points: Array.from({ length: points }, (_, i) => source.point(`price-${points}-${n}-${i}`)),
  })
  const bodies = Array.from({ length: 20 }, (_, n) => Buffer.from(JSON.stringify(body(n))))
  return { path: '/v1/vectors/upsert', bodies }
}

/** Gateway keys of agents without limits. */
export async function openAgents(stage: {
  processes: Processes
  volume: string
  vectorUrl: string
}): Promise<string[]> {
  const keys: string[] = []
  for (let n = 0; n < agentsOfLoad; n++) {
    const agentId = `price-${n}`
    const privateKeyFile = await provision(stage.processes, `${stage.volume}/${agentId}`, agentId)
    const client = createClient({ vectorUrl: stage.vectorUrl, agentId, privateKeyFile })
    keys.push(await client.apiKey())
    await client.close()
  }
  return keys
}

/** The threads of a broker that compile, as `threadSeconds` names them. */
const compilers = 'C'
const sumOf = (shares: Shares) => [...shares.values()].reduce((sum, value) => sum + value, 0)

/** Divided by `units`. */
export async function measure(
  { kafka, cost }: { kafka: KafkaCluster; cost(work: () => Promise<unknown>): Promise<ProcessorTimes> },
  what: string,
  units: number,
  work: () => Promise<unknown>,
): Promise<Price> {
  const pids = kafka.nodes.map((node) => kafka.pid(node))
  // Asking a broker over JMX costs it something, which must not be measured.
  const before = { requests: kindsOf(await kafka.counted(requestsBeans)), threads: threadSeconds(pids) }
  const ms = await cost(work)
  const threads = threadSeconds(pids)
  const requests = kindsOf(await kafka.counted(requestsBeans))
  // A long-running broker compiles no more.
  for (const seconds of [threads, before.threads]) seconds.delete(compilers)
  const spent = { ...ms, kafka: sumOf(threads) - sumOf(before.threads) }
  const each = (after: Shares, was: Shares, factor: number) =>
    new Map([...after].map(([name, value]) => [name, ((value - (was.get(name) ?? 0)) * factor) / units]))
  return {
    what,
    ms: timesOf((name) => (spent[name] * 1_000) / units),
    requests: each(requests, before.requests, 1),
    threads: each(threads, before.threads, 1_000),
  }
}

export function timesOf(of: (name: keyof ProcessorTimes) => number): ProcessorTimes {
  return Object.fromEntries(engines.map((name) => [name, of(name)])) as ProcessorTimes
}

/** Versions of a kind together. */
function kindsOf(counts: ReadonlyMap<string, number>): Shares {
  const kinds: Shares = new Map()
  for (const [bean, count] of counts) {
    const kind = /request=(\w+)/.exec(bean)?.[1]
    // `Fetch` counts those of followers and consumers once more.
    if (kind !== undefined && kind !== 'Fetch') kinds.set(kind, (kinds.get(kind) ?? 0) + count)
  }
  return kinds
}

/** Each request by the next agent, to the next of `urls`. */
export async function send(urls: readonly string[], work: Work, keys: readonly string[]): Promise<void> {
  const { path, bodies, clients, requests } = work
  const connections = Math.max(urls.length, clients ?? perSecond)
  const callers = Array.from({ length: connections }, (_, n) => openCaller(urls[n % urls.length]!))
  const target = clients === undefined || path.endsWith('search') ? path : `${path}?wait=true`
  const post = (n: number) =>
    callers[n % callers.length]!.post(target, bodies[n % bodies.length]!, {
      authorization: `Bearer ${keys[n % keys.length]}`,
    })
  let next = 0
  const inTurn = async () => {
    while (next < requests) await post(next++)
  }
  const atTimes = async () => {
    const begun = performance.now()
    const sent: Promise<unknown>[] = []
    for (let n = 0; n < requests; n++) {
      await pause(Math.max(0, begun + (n * 1_000) / perSecond - performance.now()))
      sent.push(post(n))
    }
    await Promise.all(sent)
  }
  await (clients === undefined ? atTimes() : Promise.all(callers.slice(0, clients).map(inTurn)))
  for (const caller of callers) await caller.close()
}

export function lineOf({ what, ms, requests }: Price): string {
  const times = engines.map((name) => `${name} ${ms[name].toFixed(2)}`)
  const kinds = top(requests, 8).map(([name, n]) => `${name} ${n.toFixed(2)}`)
  return `  ${what}, ms: ${times.join(', ')}; requests: ${kinds.join(', ')}`
}

export function table(title: string, prices: Price[], of: (price: Price) => Shares): string {
  const sums: Shares = new Map()
  for (const price of prices)
    for (const [name, value] of of(price)) sums.set(name, (sums.get(name) ?? 0) + value)
  const names = top(sums, 16).map(([name]) => name)
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`
  return [
    `### ${title}`,
    '',
    line([...['what'], ...prices.map(({ what }) => what)]),
    line(['---', ...prices.map(() => '---')]),
    ...names.map((name) => line([name, ...prices.map((price) => (of(price).get(name) ?? 0).toFixed(2))])),
  ].join('\n')
}

function top(shares: Shares, most: number): [string, number][] {
  return [...shares].sort(([, a], [, b]) => b - a).slice(0, most)
}
