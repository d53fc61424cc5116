/** docs/backup.md, rehearsed: a broker, a registry and Postgres are lost, and come back from their own tools' copies. */

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { openPostgres } from '../../scripts/servers/postgres.ts'
import { openRegistry } from '../../scripts/servers/registry.ts'
import { readSchemas, registerSchemas } from '../../scripts/upgrade/registered-schemas.ts'
import { dump, newDatabase, rolesOf } from '../../scripts/upgrade/stacks.ts'
import { createProcesses, type Processes, type ServiceProcess } from '../support/distributed-process.ts'
import { eventually } from '../support/eventually.ts'
import { axisVector } from '../support/points.ts'
import { newSecretKeyVariable } from '../support/secret-key.ts'
import { restoreDump } from '../support/upgrade-stack.ts'

const folder = mkdtempSync(join(tmpdir(), 'fl-'))
/** The agents' keys; the vector index is embedded, and lost. */
const [home, newHome] = [join(folder, 'home'), join(folder, 'new-home')]
const [broker, copiedBroker] = [join(folder, 'kafka'), join(folder, 'kafka-copy')]
const dumped = join(folder, 'postgres.sql')
const secretKey = newSecretKeyVariable()
/** Each near to the next: an HNSW index does not find all of points that are all equally far from each other. */
const vectorOf = (n: number) => axisVector(n, 0.5)
const points = Array.from({ length: 60 }, (_, n) => ({ id: `p-${n}`, vector: vectorOf(n), payload: { n } }))

let opened: { close(): Promise<void> }[] = []
let processes: Processes
let client: Client

beforeAll(() => {
  for (const path of [home, newHome]) mkdirSync(path)
})
afterAll(async () => {
  await closeAll()
  rmSync(folder, { recursive: true, force: true })
})

async function closeAll(): Promise<void> {
  await client?.close()
  await processes?.close()
  await Promise.all(opened.map((server) => server.close()))
  opened = []
}

function clientOf(platform: ServiceProcess): Client {
  const addresses = JSON.parse(readFileSync(join(platform.home, 'run', 'addresses.json'), 'utf8'))
  return createClient({
    vectorUrl: platform.vectorUrl,
    hubUrl: addresses.hub_url,
    agentId: 'keeper',
    privateKeyFile: join(home, 'agents', 'keeper', 'ed25519.pem'),
    timeoutMs: 60_000,
  })
}

async function stop(platform: ServiceProcess): Promise<void> {
  platform.child.kill('SIGTERM')
  expect(await platform.finished).toBe(0)
}

it('gives back points, notes, agents and groups, with a new index and a new mirror', async () => {
  const [kafka, registry, postgres] = await Promise.all([
    openKafkaCluster(1, { data: broker }),
    openRegistry(),
    openPostgres(),
  ])
  opened = [kafka, registry, postgres]
  const database = await newDatabase(postgres.url)
  const engines = (brokers: string[], registryUrl: string, databaseUrl: string) => ({
    KAFKA_BROKERS: brokers.join(','),
    SCHEMA_REGISTRY_URL: registryUrl,
    DATABASE_URL: databaseUrl,
    ...secretKey,
  })
  processes = createProcesses(engines(kafka.brokers, registry.url, database))
  const first = await processes.start([], { home })
  await processes.run(['agents', 'provision', '--agent-id', 'keeper', '--tier', 'infra-architect'], home)
  client = clientOf(first)
  const { operation_id } = await client.upsert('posts', points, { wait: true })
  await client.delete('posts', ['p-0'], { wait: true })
  const notes = [await client.notes.create({ subject: 'one', body: 'b' })]
  notes.push(await client.notes.create({ subject: 'two', body: 'b' }))
  await eventually(
    'the notes are indexed',
    async () => (await client.getMany('fleet_notes', idsOf(notes))).missing.length === 0,
    60_000,
  )
  // A second generation: after the restore the engine knows none of them.
  await processes.run(['rebuild', 'vectors'], home)
  await stop(first)

  // As the page says: the platform is stopped, then the database, the registry's schemas and the broker's files.
  await dump(database, dumped)
  const [schemas, roles] = await Promise.all([readSchemas(registry.url), rolesOf(database)])
  await kafka.stop(1)
  cpSync(broker, copiedBroker, { recursive: true })
  await closeAll()

  const [newKafka, newRegistry, newPostgres] = await Promise.all([
    openKafkaCluster(1, { data: copiedBroker }),
    openRegistry(),
    openPostgres(),
  ])
  opened = [newKafka, newRegistry, newPostgres]
  await registerSchemas(newRegistry.url, schemas)
  const newDatabaseUrl = await newDatabase(newPostgres.url)
  await restoreDump(newDatabaseUrl, dumped, roles)
  processes = createProcesses(engines(newKafka.brokers, newRegistry.url, newDatabaseUrl))
  await expect(processes.run(['backup', join(folder, 'b')], newHome)).rejects.toThrow(
    'KAFKA_BROKERS and DATABASE_URL is set',
  )
  const { records } = await processes.run<{ records: number }>(['restore', '--engines'], newHome)
  expect(records).toBeGreaterThan(points.length)
  const second = await processes.start([], { home: newHome })
  // From a machine of its own: the services are running.
  await expect(processes.run(['restore', '--engines'])).rejects.toThrow('is running')
  await processes.run(['rebuild', 'relational'], newHome)

  client = clientOf(second)
  const ids = points.map(({ id }) => id)
  const found = await client.getMany('posts', ids)
  expect(found.missing).toEqual(['p-0'])
  expect(found.points.map(({ id, payload }) => [id, payload]).sort()).toEqual(
    points
      .slice(1)
      .map(({ id, payload }) => [id, payload])
      .sort(),
  )
  const { results } = await client.searchPg({ vector: vectorOf(7), limit: 1, withPayload: true })
  expect(results).toMatchObject([{ id: 'p-7', payload: { n: 7 } }])
  expect((await client.getMany('fleet_notes', idsOf(notes))).missing).toEqual([])
  expect(await client.notes.get(notes[0]!.id)).toMatchObject({ subject: 'one' })
  await expect(client.operation(operation_id)).rejects.toMatchObject({ code: 'operation_not_found' })
  expect((await client.upsert('posts', [points[0]!], { wait: true })).status).toBe('applied')
  await eventually(
    'every group reads to the end',
    async () => {
      const { groups } = await processes.run<{ groups: { lag: number }[] }>(['lag'], newHome)
      return groups.every(({ lag }) => lag === 0)
    },
    60_000,
  )
  expect(await processes.run(['doctor'], newHome)).toMatchObject({ ok: true })
  await stop(second)
}, 600_000)

function idsOf(notes: { id: number }[]): string[] {
  return notes.map(({ id }) => `note-${id}`)
}
