/** Starts sinks and courier in processes of their own, and sends the same POSTs by undici alone to compare with. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'undici'
import { type KafkaCluster, openKafkaCluster } from '../scripts/servers/kafka.ts'
import { type Forked, openForked, paced } from './forked.ts'
import type { PlatformCalls } from './webhook-platform.ts'
import type { Round, SinkCalls, SinkReport } from './webhook-sinks.ts'

export type Driver = 'embedded' | 'Kafka'

export interface WebhookStage {
  driver: Driver
  /** Empty for the embedded log. */
  brokers: string[]
  urls: string[]
  sinks: Forked<SinkCalls>
  platform: Forked<PlatformCalls>
  close(): Promise<void>
}

export const backoffMs = 50

/** The database is embedded either way. */
export async function openWebhookStage(driver: Driver): Promise<WebhookStage> {
  const home = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  const named = process.env.KAFKA_BROKERS
  let cluster: KafkaCluster | undefined
  if (driver === 'Kafka' && !named) cluster = await openKafkaCluster(1)
  const brokers = driver === 'Kafka' ? (cluster?.brokers.join(',') ?? named ?? '') : ''
  const sinks = openForked<SinkCalls>(new URL('./webhook-sinks.ts', import.meta.url))
  const platform = openForked<PlatformCalls>(new URL('./webhook-platform.ts', import.meta.url), [
    home,
    brokers,
  ])
  const close = async () => {
    await Promise.all([platform.close(), sinks.close()])
    await cluster?.close()
    rmSync(home, { recursive: true, force: true })
  }
  try {
    const urls = await sinks.call('urls', null)
    await platform.call('open', { urls, backoffMs })
    return { driver, brokers: brokers.split(',').filter(Boolean), urls, sinks, platform, close }
  } catch (error) {
    await close()
    throw error
  }
}

export const well: Round = { failEvery: 0, hanging: null, timed: false }

/** Deliveries a second over all sinks, between the first arrival and the last. */
export function rateOf(reports: SinkReport[]): number {
  const busy = reports.filter(({ delivered }) => delivered > 0)
  const delivered = busy.reduce((sum, report) => sum + report.delivered, 0)
  const firstAt = Math.min(...busy.map((report) => report.firstAt))
  const lastAt = Math.max(...busy.map((report) => report.lastAt))
  return (delivered - busy.length) / ((lastAt - firstAt) / 1_000)
}

/** The request of the comparison: one of the courier's own, with new numbers. */
export interface Sample {
  /** Those that all requests have in common, by their names as the courier writes them. */
  headers: Record<string, string>
  body: string
}

/** Set by the connection. */
const connectionHeaders = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'keep-alive'])

/** `rawHeaders`: names and values in turn. */
export function sampleOf({ rawHeaders }: SinkReport, body: string): Sample {
  const headers: Record<string, string> = {}
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!
    if (!connectionHeaders.has(name.toLowerCase())) headers[name] = rawHeaders[at + 1]!
  }
  return { headers, body }
}

function requestOf({ headers, body }: Sample, sequence: number) {
  return {
    method: 'POST' as const,
    path: '/hook',
    body,
    headers: {
      ...headers,
      'X-Sequence': String(sequence),
      'X-Attempt': '1',
      'X-Previous-Sequence': String(sequence - 1),
    },
  }
}

export async function post(client: Client, sample: Sample, sequence: number): Promise<void> {
  const answer = await client.request(requestOf(sample, sequence))
  await answer.body.dump()
}

/** `count` POSTs to each sink, one after the other, the sinks side by side. */
export async function floorDrain(urls: string[], sample: Sample, count: number): Promise<void> {
  const one = async (url: string) => {
    const client = new Client(url)
    for (let n = 1; n <= count; n++) await post(client, sample, n)
    await client.close()
  }
  await Promise.all(urls.map(one))
}

/** One POST to each sink, `perSecond` times a second, with the time in its body. */
export async function floorPaced(
  urls: string[],
  sample: Sample,
  perSecond: number,
  count: number,
): Promise<void> {
  const clients = urls.map((url) => new Client(url))
  let sequence = 0
  await paced(perSecond, count, async (at) => {
    const n = ++sequence
    const body = sample.body.replace(/"at":[\d.]+/, `"at":${at}`)
    await Promise.all(clients.map((client) => post(client, { ...sample, body }, n)))
  })
  await Promise.all(clients.map((client) => client.close()))
}
