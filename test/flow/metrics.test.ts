/** The metrics of a running platform: their values and names, and that docs/metrics.md lists all of them. */

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { removeDeadLetters } from '#runtime/consume/dead-letters.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { axisVector } from '../support/points.ts'

let gateway: GatewayPlatform
let client: Client
let limited: Client

beforeAll(async () => {
  // Nobody receives the spans: that tracing is on shows its metric.
  const tracing = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_TRACES_SAMPLER: 'always_off' }
  gateway = await openGatewayPlatform(tracing, { mirror: true })
  client = await gateway.clientOf('whale', { timeoutMs: 60_000 })
  const { privateKeyPem } = await gateway.provision({ agentId: 'shrimp', tier: 'agent' })
  limited = createClient({ vectorUrl: gateway.vectorUrl, agentId: 'shrimp', privateKeyPem })
}, 240_000)
afterAll(() => gateway?.close())

const text = async () => (await fetch(new URL('/metrics', gateway.vectorUrl))).text()

/** The value of one series, as Prometheus reads it; undefined: it is not there. */
async function readingOf(series: string): Promise<number | undefined> {
  const line = (await text()).split('\n').find((one) => one.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

describe('the metrics count', () => {
  test('points that were written, by index', async () => {
    const written = async (index: string) =>
      (await readingOf(`flotilla_written_points_total{index="${index}"}`)) ?? 0
    const before = { vectors: await written('vectors'), relational: await written('relational') }
    const points = ['a', 'b', 'c'].map((id, n) => ({ id, vector: axisVector(n), payload: {} }))
    await client.upsert('posts', points, { wait: true })
    for (const index of ['vectors', 'relational'] as const) {
      // Audit notes of other requests are points of the vector index, too.
      await eventually(index, async () => (await written(index)) >= before[index] + 3, 60_000)
    }
    expect(await written('relational')).toBe(before.relational + 3)
  }, 120_000)

  test('requests over a limit, by code', async () => {
    const key = await limited.apiKey()
    const url = `/v1/vectors/count?collection=posts`
    const answers = await Promise.all(
      Array.from({ length: 400 }, () => call(gateway.vectorUrl, url, { key, method: 'GET' })),
    )
    const codes = Map.groupBy(
      answers.filter(({ status }) => status === 429),
      ({ json }) => String(json.code),
    )
    expect(codes.size).toBeGreaterThan(0)
    for (const [code, refused] of codes) {
      const series = `http_limited_requests_total{service="vector-gateway",code="${code}"}`
      await eventually(code, async () => (await readingOf(series)) === refused.length)
    }
  }, 120_000)

  test('dead letters that wait, until they are gone', async () => {
    const { publisher } = gateway.platform
    const waiting = () => readingOf('flotilla_waiting_dead_letters{topic="vectors.commands"}')
    await eventually('a figure', async () => (await waiting()) === 0)
    const origins = [7, 8].map((offset) => ({ group: 'vector-writer', partition: 3, offset, epoch: 1 }))
    const value = {
      consumer_group: 'vector-writer',
      topic: 'vectors.commands',
      partition: 3,
      key: Buffer.from('posts/a'),
      value: null,
      headers: {},
      reason: 'test',
      attempts: 1,
      parked_at: Date.now(),
    }
    const letters = origins.map((key) => ({ key, value: { ...value, offset: key.offset } }))
    await publisher.publish(deadLettersOf(vectorsCommands), letters)
    await eventually('both', async () => (await waiting()) === 2)
    await removeDeadLetters(gateway.platform, 'vectors.commands', origins)
    await eventually('none', async () => (await waiting()) === 0)
  }, 120_000)

  test('the disk space of the data directory, and the free space', async () => {
    expect(await readingOf('flotilla_data_directory_used_bytes')).toBeGreaterThan(2 ** 20)
    expect(await readingOf('flotilla_data_directory_free_bytes')).toBeGreaterThan(0)
  })
})

interface Listed {
  name: string
  type: string
  labels: string[]
}

/** Rows of the tables: `name` | type | labels | meaning. */
function listedInDocs(): Listed[] {
  const page = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8')
  return [...page.matchAll(/^\| `(\w+)` \| (\w+) \| (.*?) \|/gm)].map(([, name, type, labels]) => ({
    name: name!,
    type: type!,
    labels: [...labels!.matchAll(/`(\w+)`/g)].map(([, label]) => label!).sort(),
  }))
}

const ownLabels: Record<string, string> = { histogram: 'le', summary: 'quantile' }
/** Base units, and things counted; a p95 is named by its unit as well. */
const units = /_(seconds|bytes|records|points|keys|calls|searches|letters|schedules|partition|engine)$/

describe('docs/metrics.md', () => {
  test('lists every metric of a running platform, with its type and its labels', async () => {
    const found = await gateway.platform.metrics.getMetricsAsJSON()
    const listed = listedInDocs()
    const named = (all: { name: string; type: unknown }[]) =>
      all.map(({ name, type }) => `${name} ${type}`).sort()
    expect(named(listed)).toEqual(named(found))
    for (const { name, type, values } of found) {
      const { labels } = listed.find((one) => one.name === name)!
      const seen = new Set(values.flatMap((value) => Object.keys(value.labels)))
      seen.delete(ownLabels[String(type)] ?? '')
      for (const label of seen) expect(labels, name).toContain(label)
    }
  })

  test('every name of ours follows the rules of Prometheus', () => {
    const ours = listedInDocs().filter(({ name }) => !/^(process|nodejs)_/.test(name))
    expect(ours.length).toBeGreaterThan(15)
    for (const { name, type } of ours) {
      expect(name).toMatch(/^[a-z][a-z0-9_]+$/)
      expect(name).not.toMatch(/milli|micro|_ms(_|$)|minutes|kilo|mega/)
      if (type === 'counter') expect(name).toMatch(/_total$/)
      else expect(name, type).toMatch(units)
    }
  })
})
