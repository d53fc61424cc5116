/** The ways through the platform: one upsert, one webhook, one run and one note, each followed by its request id. */

import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { catalog, runsCommands, webhooksAttempts } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { recordsOf } from '../support/log-reading.ts'
import { axisVector } from '../support/points.ts'
import { openRunsPlatform, type RunsPlatform, talkOf } from '../support/runs-platform.ts'
import { temporaryFolder } from '../support/temporary.ts'
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts'

/** 60 % of the count before files that are read together became one. */
const filesMax = 75

const folder = mkdtempSync(join(tmpdir(), 'fl-paths-'))
let sink: WebhookSink
let platform: RunsPlatform
beforeAll(async () => {
  sink = await openWebhookSink()
  const targets = join(folder, 'targets.yaml')
  writeFileSync(targets, JSON.stringify({ targets: { audit: { url: sink.url } } }))
  platform = await openRunsPlatform({ WEBHOOK_TARGETS_FILE: targets })
})
afterAll(async () => {
  await platform?.close()
  await sink?.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Where the request left its id: the line of the interface, then every topic that has a record of it, oldest first. */
async function stationsOf(requestId: string): Promise<string[]> {
  const lines = platform.lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  const line = lines.find(({ msg, request_id }) => msg === 'http.request' && request_id === requestId)
  const topics: { name: string; at: string }[] = []
  for (const topic of catalog) {
    // For the version before alone, and only of runs that waited.
    if (topic === runsCommands) continue
    const records = await recordsOf(platform.platform, topic)
    const own = records.find((record) => record.headers['request-id'] === requestId)
    if (own) topics.push({ name: topic.name, at: own.headers['occurred-at']! })
  }
  topics.sort((a, b) => a.at.localeCompare(b.at))
  return [...(line ? [`${line.method} ${line.route} ${line.status}`] : []), ...topics.map(({ name }) => name)]
}

/** Waits until the request reached every station and had its effects, and prints them. */
async function follow(
  what: string,
  expected: string[],
  effects: Record<string, () => unknown | Promise<unknown>>,
): Promise<void> {
  const stations = await eventually(`the stations of the ${what}`, async () => {
    const reached = await stationsOf(`path-${what}`)
    return reached.length >= expected.length ? reached : null
  })
  expect(new Set(stations)).toEqual(new Set(expected))
  for (const [name, happened] of Object.entries(effects)) await eventually(name, happened)
  process.stdout.write(`${[what, ...stations, ...Object.keys(effects)].join(' -> ')}\n`)
}

const stored = async (collection: string, id: string) =>
  (await platform.platform.engines.vectors.get(collection, [id])).length > 0
const arrived = (text: string) => () => sink.received.some(({ body }) => body.includes(text))

const headers = (what: string) => ({ 'x-request-id': `path-${what}` })

test('an upsert: the gateway, its record, its audit records, the point', async () => {
  const key = await platform.memberKey()
  const points = [{ id: 'path', vector: [...axisVector(3)], payload: {} }]
  const given = { key, body: { collection: 'posts', points }, headers: headers('upsert') }
  expect((await call(platform.vectorUrl, '/v1/vectors/upsert', given)).status).toBe(202)
  await follow('upsert', ['POST /v1/vectors/upsert 202', 'vectors.commands', 'audit.events'], {
    'the point in the engine': () => stored('posts', 'path'),
  })
})

test('a webhook: the relay, the delivery, the receiver, the attempt', async () => {
  const body = { event: 'task.completed', agent: 'WHALE', task_id: 'fired', result: {}, ts: 1_700_000_000 }
  const given = { body, headers: headers('webhook') }
  const fired = await call(platform.addresses.webhook_url!, '/api/v1/webhooks/fire', given)
  expect(fired.status, fired.text).toBe(202)
  await follow('webhook', ['POST /api/v1/webhooks/fire 202', 'webhooks.deliveries'], {
    'the receiver': arrived('fired'),
    'webhooks.attempts': async () => {
      const attempts = await recordsOf(platform.platform, webhooksAttempts)
      return attempts.some(({ value }) => value?.kind === 'success' && value.target === 'audit')
    },
  })
})

test('a run: the gateway, the node, its end for the fleet, the webhook', async () => {
  const run = await platform.run('whale', 'follow me', { headers: headers('run') })
  expect(talkOf(run)).toEqual(['WHALE: whale heard: follow me'])
  const stations = ['POST /:slug/run 200', 'fleet.events', 'webhooks.deliveries']
  await follow('run', stations, { 'the receiver': arrived('follow me') })
})

test('a note: the hub, the record, the command of its point, the point', async () => {
  const note = { subject: 'Following', body: 'A note.' }
  const given = { key: await platform.memberKey(), body: note, headers: headers('note') }
  const made = await call(platform.hubUrl, '/fleet_notes/', given)
  expect(made.status).toBe(201)
  await follow('note', ['POST /fleet_notes/ 201', 'hub.records', 'vectors.commands'], {
    'the point in the engine': () => stored('fleet_notes', `note-${made.json.id}`),
  })
})

test('an upsert runs through few of our files', async () => {
  const program = join(import.meta.dirname, '../support/covered-files.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [program, temporaryFolder()])
  const files = JSON.parse(stdout) as string[]
  process.stdout.write(`upsert: functions of ${files.length} files ran\n`)
  expect(files).toContain('services/vectors/write/handler.ts')
  expect(files.length, files.join('\n')).toBeLessThanOrEqual(filesMax)
})
