/** The catalogue says which service writes, works through and follows each topic: it is compared with what they do. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import type { Publisher } from '#runtime/publish/messages.ts'
import type { Service, ServiceHost } from '#runtime/start/service.ts'
import { eventually } from '#test/support/eventually.ts'
import { call } from '#test/support/gateway-call.ts'
import { openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'
import { catalog } from '#topics/catalog.ts'
import { deadLetterSuffix } from '#topics/dead-letters.ts'

/** `<service> writes <topic>`, `<service> follows <topic>`, `<service> works through <topic> as <group>`. */
const seen = new Set<string>()
let platform: RunsPlatform
const folder = mkdtempSync(join(tmpdir(), 'fl-catalogue-'))
const target = createServer((_, response) => response.end())

beforeAll(async () => {
  await new Promise<void>((resolve) => target.listen(0, '127.0.0.1', resolve))
  const { port } = target.address() as { port: number }
  const targetsFile = join(folder, 'targets.yaml')
  writeFileSync(targetsFile, `targets:\n  all:\n    url: http://127.0.0.1:${port}/\n`)
  platform = await openRunsPlatform({ WEBHOOK_TARGETS_FILE: targetsFile }, { mirror: true, as: watched })
})
afterAll(async () => {
  await platform?.close()
  target.close()
  rmSync(folder, { recursive: true, force: true })
})

/** The service with a log and a publisher that note what it does with topics. */
function watched(service: Service): Service {
  const of = ({ engines, publisher, ...host }: ServiceHost): ServiceHost => ({
    ...host,
    engines: { ...engines, eventLog: watchedLog(engines.eventLog, service.name) },
    publisher: watchedPublisher(publisher, service.name),
  })
  if (service.kind === 'worker') return { ...service, start: (host) => service.start(of(host)) }
  return {
    ...service,
    async load(env) {
      const routes = await service.load(env)
      return (app, host) => routes(app, of(host))
    },
  }
}

function watchedLog(log: EventLog, service: string): EventLog {
  return {
    ...log,
    tail(options) {
      seen.add(`${service} follows ${options.topic}`)
      return log.tail(options)
    },
    consume(options) {
      seen.add(`${service} works through ${options.topic} as ${options.group}`)
      return log.consume(options)
    },
  }
}

function watchedPublisher<P extends Pick<Publisher, 'publish' | 'batch'>>(publisher: P, service: string): P {
  return new Proxy(publisher, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown
      if (typeof member !== 'function') return member
      return (...given: unknown[]) => {
        const topic = given[0] as { name?: string }
        if (name === 'publish' || name === 'batch') seen.add(`${service} writes ${topic.name}`)
        const result = Reflect.apply(member, target, given)
        return name === 'fenced'
          ? (result as Promise<P>).then((fenced) => watchedPublisher(fenced, service))
          : result
      }
    },
  })
}

/** Everything that the catalogue names, dead letters aside: they belong to who works through their topic. */
function promised(): string[] {
  return catalog
    .filter(({ name }) => !name.endsWith(deadLetterSuffix))
    .flatMap(({ name, writers, readers }) => [
      ...writers.map((service) => `${service} writes ${name}`),
      ...readers.map((reader) =>
        'group' in reader
          ? `${reader.service} works through ${name} as ${reader.group}`
          : `${reader.service} follows ${name}`,
      ),
    ])
}

test('every service writes, follows and works through what the catalogue says, and nothing else', async () => {
  const client = await platform.clientOf('catalogue')
  const point = { id: 'a', vector: Array.from({ length: 1_536 }, () => 0.1), payload: { text: 'a' } }
  await client.upsert('posts', [point])
  const key = await platform.keyFor('admin')
  const token = await platform.tokenFor('admin')
  const hub = (method: string, path: string, body?: unknown) =>
    call(platform.hubUrl, path, { method, key, ...(body === undefined ? {} : { body }) })
  const main = (method: string, path: string, body?: unknown) =>
    call(platform.baseUrl, `/api/v1${path}`, { method, key: token, ...(body === undefined ? {} : { body }) })
  expect((await hub('POST', '/fleet_notes/', { subject: 'A note', body: 'It runs.' })).status).toBe(201)
  expect((await main('POST', '/users', { email: 'ana@example.com', role: 'viewer' })).status).toBe(201)
  expect((await main('GET', '/webhooks/attempts')).status).toBe(200)
  // The points of a deleted collection are deleted in the log.
  expect((await main('POST', '/collections', { name: 'tea' })).status).toBe(201)
  await client.upsert('tea', [point], { wait: true })
  await client.close()
  expect((await main('DELETE', '/collections/tea')).status).toBe(200)
  const event = { event: 'task.completed', agent: 'PULSE', task_id: '1', result: '{}', ts: 1 }
  await call(platform.addresses.webhook_url!, '/api/v1/webhooks/fire', { method: 'POST', body: event })

  // One that waits behind another one in its session is canceled before it could begin, then the others.
  platform.script('cipher', () => [{ hang: true }])
  const session = { fields: { sessionId: 'one' }, headers: { prefer: 'respond-async' } }
  const runs = [
    await platform.run('cipher', 'first', session),
    await platform.run('cipher', 'second', session),
    await platform.run('whale', 'third', { headers: session.headers }),
  ]
  expect(runs.map(({ status }) => status)).toEqual([202, 202, 202])
  for (const { json } of runs.toReversed()) await platform.call('POST', `/runs/${json.runId}/cancel`)
  const due = promised()
  const missing = () => due.filter((one) => !seen.has(one))
  await eventually('all of it happened', () => missing().length === 0, 60_000).catch(() => {})
  const more = [...seen].filter((one) => !one.includes(deadLetterSuffix) && !due.includes(one))
  expect({ missing: missing(), more }).toEqual({ missing: [], more: [] })
})
