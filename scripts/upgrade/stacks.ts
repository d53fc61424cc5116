/** Brings up the platform of this checkout on fresh engines, has it filled, and leaves what it wrote in a folder. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Kafka, logLevel } from 'kafkajs'
import pg from 'pg'
import { createProcesses, type ServiceProcess } from '../../test/support/distributed-process.ts'
import { runCommand } from '../servers/children.ts'
import { installPostgres } from '../servers/install.ts'
import { openKafkaCluster } from '../servers/kafka.ts'
import { openPostgres } from '../servers/postgres.ts'
import { openRegistry } from '../servers/registry.ts'
import { type Filled, fill } from './fill.ts'
import type { StackManifest } from './manifest.ts'
import { readSchemas } from './registered-schemas.ts'
import type { RunningStack } from './running-stack.ts'

/** Names in an unpacked fixture. */
export const places = { home: 'home', kafka: 'kafka', dump: 'postgres.sql' } as const

/** `folder/home` is the data directory. */
export async function makeEmbedded(folder: string): Promise<StackManifest> {
  return { ...(await runAndFill(folder, {})), schemas: [], roles: [] }
}

/** With the broker's log directory in `folder/kafka` and the dump of the database; vectors are embedded. */
export async function makeDistributed(folder: string): Promise<StackManifest> {
  const [kafka, registry, postgres] = await Promise.all([
    openKafkaCluster(1, { data: join(folder, places.kafka) }),
    openRegistry(),
    openPostgres(),
  ])
  try {
    const database = await newDatabase(postgres.url)
    const env = {
      KAFKA_BROKERS: kafka.brokers.join(','),
      SCHEMA_REGISTRY_URL: registry.url,
      DATABASE_URL: database,
    }
    const filled = await runAndFill(folder, env, (topic, key) => appendJunk(kafka.brokers, topic, key))
    await dump(database, join(folder, places.dump))
    const schemas = await readSchemas(registry.url)
    const roles = await rolesOf(database)
    await kafka.stop(1)
    return { ...filled, schemas, roles }
  } finally {
    await Promise.all([kafka.close(), registry.close(), postgres.close()])
  }
}

async function runAndFill(
  folder: string,
  env: Record<string, string>,
  appendJunk?: RunningStack['appendJunk'],
): Promise<Filled> {
  const home = join(folder, places.home)
  mkdirSync(home, { mode: 0o700 })
  const processes = createProcesses(env)
  try {
    const platform = await processes.start([], { home })
    const filled = await fill({
      home,
      vectorUrl: platform.vectorUrl,
      webhookUrl: printed(platform, 'webhook_url'),
      command: (...args) => processes.run(args, home),
      ...(appendJunk ? { appendJunk } : {}),
    })
    platform.child.kill('SIGTERM')
    const code = await platform.finished
    if (code !== 0) throw new Error(`the platform ended with ${code}: ${platform.output().slice(-2_000)}`)
    return filled
  } finally {
    await processes.close()
  }
}

/** An address that the platform printed before `ready`. */
export function printed(platform: ServiceProcess, name: string): string {
  const [, address] = new RegExp(`^${name} (\\S+)$`, 'm').exec(platform.output()) ?? []
  if (address === undefined) throw new Error(`it printed no ${name}`)
  return address
}

async function appendJunk(brokers: string[], topic: string, key: string): Promise<void> {
  const producer = new Kafka({ brokers, logLevel: logLevel.NOTHING }).producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ key, value: 'junk' }] })
  await producer.disconnect()
}

export async function newDatabase(server: string): Promise<string> {
  await query(server, 'create database flotilla')
  const url = new URL(server)
  url.pathname = '/flotilla'
  return url.href
}

/** Plain SQL, as an operator's backup. */
export async function dump(database: string, file: string): Promise<void> {
  const command = join(await installPostgres(), 'bin', 'pg_dump')
  writeFileSync(file, await runCommand(command, ['--no-owner', '--dbname', database], { timeoutMs: 60_000 }))
}

/** Roles belong to the server and are in no dump of a database. */
export async function rolesOf(database: string): Promise<string[]> {
  const rows = await query<{ rolname: string }>(
    database,
    "select rolname from pg_roles where rolname not like 'pg\\_%' and rolname <> current_user order by 1",
  )
  return rows.map(({ rolname }) => rolname)
}

async function query<R extends pg.QueryResultRow>(url: string, text: string): Promise<R[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<R>(text)).rows
  } finally {
    await client.end()
  }
}
