/**
 * Two hubs and two outbox-publishers on one Postgres and one Kafka: 2,000 writes at once, a hub and a publisher killed in
 * their midst. The records of the topic are the rows, and the versions of each note and goal are in order.
 */

import { hash, randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { parseAvro, schemasDirectory, writeValue } from '#runtime/publish/codec.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import type { HubRecord } from '#schemas/types.ts'
import { provisionAgent } from '#services/access/agents/agents.ts'
import { migrationFolders } from '#services/migrations.ts'
import { hubRecords } from '#topics/catalog.ts'
import { readAll } from '../contract/event-log/world.ts'
import { createProcesses, type Processes, type ServiceProcess } from '../support/distributed-process.ts'
import { readEvents } from '../support/event-reader.ts'
import { eventually } from '../support/eventually.ts'
import { type Answer, call } from '../support/gateway-call.ts'
import { newSecretKeyVariable } from '../support/secret-key.ts'
import { databaseUrl, kafkaBrokers, registryUrl } from '../support/servers.ts'

const writes = 2_000
const clients = 16
/** A lease of 15 s has to run out after a kill. */
const publishedMsMax = 90_000

let processes: Processes
let platform: Platform
let key: string
const home = mkdtempSync(join(tmpdir(), 'fl-'))
const hubs: { process: ServiceProcess; url: string }[] = []
let publishers: ServiceProcess[]

beforeAll(async () => {
  const env = {
    KAFKA_BROKERS: (await kafkaBrokers()).join(','),
    SCHEMA_REGISTRY_URL: await registryUrl(),
    DATABASE_URL: await databaseUrl(),
    ...newSecretKeyVariable(),
  }
  processes = createProcesses(env)
  platform = await openPlatform({
    env: { ...env, FLOTILLA_HOME: home },
    needs: [],
    migrations: migrationFolders,
    producerName: 'test',
    log: pino({ level: 'silent' }),
    lock: false,
  })
  key = await newKey(platform)
  hubs.push(await startHub(), await startHub())
  publishers = await Promise.all([1, 2].map(() => processes.start(['outbox-publisher'])))
}, 240_000)
afterAll(async () => {
  await processes?.close()
  await platform?.close()
  rmSync(home, { recursive: true, force: true })
})

async function startHub() {
  const process = await processes.start(['hub'])
  const addresses = JSON.parse(readFileSync(join(process.home, 'run', 'addresses.json'), 'utf8'))
  return { process, url: addresses.hub_url as string }
}

/** A key of an agent without limits; no gateway has to run for it. */
async function newKey({ engines: { relational } }: Platform): Promise<string> {
  const { agent } = await provisionAgent(relational, { agentId: 'writer', tier: 'infra-architect' })
  const made = `vk_live_${randomBytes(32).toString('base64url')}`
  await relational.query(
    `insert into platform.gateway_keys (hash, agent_uid, shown, expires_at) values ($1, $2, 'shown', now() + interval '1 hour')`,
    [hash('sha256', made, 'buffer'), agent.uid],
  )
  return made
}

/** Tries the other hub when one is gone, as a client does: the key keeps a POST from being done twice. */
async function send(n: number, method: string, path: string, body: object): Promise<Answer> {
  const headers = { 'idempotency-key': `write-${n}` }
  for (let tries = 0; ; tries++) {
    try {
      const answer = await call(hubs[(n + tries) % 2]!.url, path, { key, method, body, headers })
      if (answer.status < 500 && answer.json.code !== 'idempotency_in_progress') return answer
    } catch (error) {
      if (tries > 600) throw error
    }
    await sleep(200)
  }
}

test('records in the topic are the rows in the tables, in order, through kills', async () => {
  const patched: string[] = []
  for (let n = 0; n < 8; n++) {
    const path = n % 2 ? '/goals' : '/fleet_notes'
    const made = await send(-1 - n, 'POST', `${path}/`, n % 2 ? { title: 'g' } : { subject: 's', body: 'b' })
    patched.push(`${path}/${made.json.id}`)
  }
  const statuses = new Map<number, number>()
  let next = 0
  async function writeRest(): Promise<void> {
    for (let n = next++; n < writes; n = next++) {
      const kind = n % 4
      const answer =
        kind === 0
          ? await send(n, 'POST', '/fleet_notes/', { subject: `note ${n}`, body: 'b' })
          : kind === 1
            ? await send(n, 'POST', '/goals/', { title: `goal ${n}` })
            : await send(n, 'PATCH', patched[n % patched.length]!, {
                priority: ['low', 'high'][n % 2],
                ...(n % 8 < 4
                  ? {}
                  : { [patched[n % patched.length]!.startsWith('/goals') ? 'title' : 'subject']: `by ${n}` }),
              })
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    }
  }
  async function kill(): Promise<void> {
    await eventually('a quarter', async () => next > writes / 4 || undefined, publishedMsMax)
    hubs[0]!.process.child.kill('SIGKILL')
    publishers[0]!.child.kill('SIGKILL')
    hubs[0] = await startHub()
    await eventually('a half', async () => next > writes / 2 || undefined, publishedMsMax)
    publishers[1]!.child.kill('SIGKILL')
    publishers = [await processes.start(['outbox-publisher'])]
  }
  await Promise.all([kill(), ...Array.from({ length: clients }, writeRest)])
  expect(Object.fromEntries(statuses)).toEqual({ 200: writes / 2, 201: writes / 2 })
  const { relational } = platform.engines
  await eventually(
    'an empty outbox',
    async () => (await relational.query('select 1 from platform.outbox limit 1')).rowCount === 0 || undefined,
    publishedMsMax,
  )
  const rows = await rowsOf()
  expect(rows.filter(({ title }) => /^(note|goal) \d+$/.test(title))).toHaveLength(writes / 2)
  const versions = await recordsByKey()
  expect([...versions.keys()].sort()).toEqual(rows.map(({ key }) => key).sort())
  for (const row of rows) {
    const { first, last } = versions.get(row.key)!
    // Each version once in its order; what a killed publisher sent twice comes again behind it.
    expect([row.key, first]).toEqual([row.key, Array.from({ length: row.version }, (_, n) => n + 1)])
    expect(last).toEqual([row.version, row.title, row.priority])
  }
  expect(Math.max(...rows.map(({ version }) => version))).toBeGreaterThan(20)
}, 400_000)

test('a hub that is older than rows and records by one version reads on, and starts again', async () => {
  const { engines, publisher } = platform
  const made = await send(-100, 'POST', '/fleet_notes/', { subject: 'old', body: 'b' })
  const path = `/fleet_notes/${made.json.id}`
  const reader = await readEvents(`${hubs[0]!.url}/fleet_notes/events`, { token: key })
  await eventually('the beginning', async () => reader.events[0]?.event === 'ready' || undefined)
  // As a newer release does: a column, a migration, a field.
  await engines.relational.query(
    `alter table platform.notes add column labels text[] not null default '{}';
     insert into public.platform_migrations (name, checksum) values ('999-labels.sql', 'x')`,
  )
  expect((await send(-101, 'PATCH', path, { subject: 'changed' })).json.subject).toBe('changed')
  await append(await newerSchema(), { ...recordOf(made.json), version: 3, title: 'by a newer one' })
  await eventually(
    'the record of the newer release',
    async () => reader.events.some(({ data }) => data?.subject === 'by a newer one') || undefined,
  )
  reader.cut()
  const again = await startHub()
  expect((await call(again.url, path, { key })).json.subject).toBe('changed')
  const changed = await call(again.url, path, { key, method: 'PATCH', body: { status: 'resolved' } })
  expect([changed.status, changed.json.status]).toEqual([200, 'resolved'])
  expect(publisher.locationOf(hubRecords).epoch).toBe(1)
}, 120_000)

/** The schema of hub.records with one more field, registered. */
async function newerSchema(): Promise<{ id: number; text: string }> {
  const own = JSON.parse(readFileSync(join(schemasDirectory, 'hub-record.avsc'), 'utf8'))
  own.fields.push({ name: 'labels', type: { type: 'array', items: 'string' }, default: [] })
  const text = JSON.stringify(own)
  const answer = await fetch(`${await registryUrl()}/subjects/${hubRecords.name}-value/versions`, {
    method: 'POST',
    headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
    body: JSON.stringify({ schema: text }),
  })
  expect(answer.status).toBe(200)
  return { id: ((await answer.json()) as { id: number }).id, text }
}

async function append({ id, text }: { id: number; text: string }, record: HubRecord): Promise<void> {
  const { physicalName, partitions } = platform.publisher.locationOf(hubRecords)
  const recordKey = Buffer.from(`note/${record.id}`)
  const value = writeValue(parseAvro(text), id, { ...record, labels: ['new'] })
  const headers = { 'event-id': randomUUID() }
  await platform.engines.eventLog.append(physicalName, partitionOf(recordKey, partitions), [
    { key: recordKey, value, headers },
  ])
}

function recordOf(note: Record<string, unknown>): HubRecord {
  const { id, author, priority, status, thread_id } = note as unknown as HubRecord
  const times = { created_at: Date.now(), updated_at: Date.now() }
  return {
    ...{ kind: 'note', id, version: 1, author, title: 's', text: 'b', priority, status, thread_id },
    ...{ parent_id: null, ...times },
  }
}

interface Row {
  key: string
  version: number
  title: string
  priority: string
}

async function rowsOf(): Promise<Row[]> {
  const { rows } = await platform.engines.relational.query<Row>(
    `select 'note/' || id as key, version, subject as title, priority from platform.notes
     union all select 'goal/' || id, version, title, priority from platform.goals`,
  )
  return rows
}

/** For each key its versions in the order in which their events first came, and the content of its last record. */
async function recordsByKey() {
  const { engines, codec, publisher } = platform
  const found = new Map<string, { first: number[]; last: unknown[] }>()
  const events = new Set<string>()
  for (const record of await readAll(engines.eventLog, publisher.locationOf(hubRecords).physicalName)) {
    const { key, value, headers } = await codec.decode(hubRecords, record)
    if (!value) continue
    const of = found.get(key) ?? { first: [], last: [] }
    found.set(key, of)
    of.last = [value.version, value.title, value.priority]
    if (!events.has(headers['event-id']!)) of.first.push(value.version)
    events.add(headers['event-id']!)
  }
  return found
}
