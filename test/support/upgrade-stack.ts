/** A fixture for upgrades, unpacked, on the engines that it was made with; the platform of this checkout can be started on it. */

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { runCommand } from '../../scripts/servers/children.ts'
import { installPostgres } from '../../scripts/servers/install.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { openRegistry } from '../../scripts/servers/registry.ts'
import { unpack } from '../../scripts/upgrade/archive.ts'
import type { Manifest, StackManifest, StackName } from '../../scripts/upgrade/manifest.ts'
import { registerSchemas } from '../../scripts/upgrade/registered-schemas.ts'
import { places, printed } from '../../scripts/upgrade/stacks.ts'
import { createProcesses, type ServiceProcess } from './distributed-process.ts'
import { newSecretKeyVariable } from './secret-key.ts'
import { databaseUrl } from './servers.ts'

const fixtures = fileURLToPath(new URL('../fixtures/upgrade', import.meta.url))

/** Time goes by while a fixture lies in the repository; nothing may be pruned only because it is old. */
const unaged = { AUDIT_RETENTION_DAYS: '0' }

export interface UpgradeStack extends StackManifest, Omit<Manifest, 'stacks'> {
  home: string
  /** Runs a command with --json on the data directory and gives its document. */
  command<T>(...args: string[]): Promise<T>
  /** Starts every service in one process. */
  start(): Promise<ServiceProcess & { webhookUrl: string }>
  close(): Promise<void>
}

/** Names of all fixtures, each made by another version, the oldest first. */
export function fixtureNames(): string[] {
  const madeAt = (name: string) => manifestOf(name).made_by.at
  return readdirSync(fixtures).sort((a, b) => (madeAt(a) < madeAt(b) ? -1 : 1))
}

function manifestOf(name: string): Manifest {
  return JSON.parse(readFileSync(join(fixtures, name, 'manifest.json'), 'utf8')) as Manifest
}

/** `command` is the file of another `flotilla` command than this checkout's. */
export function openEmbeddedFixture(name: string, command?: string): Promise<UpgradeStack> {
  return openFixture(name, 'embedded', async () => ({ env: {}, close: async () => {} }), command)
}

/** A broker on the unpacked log directory, a new registry and a new database, filled as an operator would. */
export function openDistributedFixture(name: string): Promise<UpgradeStack> {
  return openFixture(name, 'distributed', openServers)
}

interface Engines {
  env: Record<string, string>
  close(): Promise<void>
}

async function openServers(folder: string, { schemas, roles }: StackManifest): Promise<Engines> {
  const opened: { close(): Promise<void> }[] = []
  const keep = <T extends { close(): Promise<void> }>(server: T): T => {
    opened.push(server)
    return server
  }
  const close = async () => void (await Promise.all(opened.map((server) => server.close())))
  try {
    const kafka: KafkaCluster = keep(await openKafkaCluster(1, { data: join(folder, places.kafka) }))
    // A registry of its own: in one that others use, too, the ids are taken.
    const registry = keep(await openRegistry())
    await registerSchemas(registry.url, schemas)
    const database = await databaseUrl()
    await restoreDump(database, join(folder, places.dump), roles)
    const env = {
      KAFKA_BROKERS: kafka.brokers.join(','),
      SCHEMA_REGISTRY_URL: registry.url,
      DATABASE_URL: database,
      // A version that encrypts secrets left its key in the data directory.
      ...(existsSync(join(folder, places.home, 'secret-key')) ? {} : newSecretKeyVariable()),
    }
    return { env, close }
  } catch (error) {
    await close()
    throw error
  }
}

function unlessThere(error: { code?: string }): void {
  const [duplicate, sameAtOnce] = ['42710', '23505']
  if (error.code !== duplicate && error.code !== sameAtOnce) throw error
}

/** Roles belong to the server and are in no dump of a database: those that are missing are made. */
export async function restoreDump(database: string, dump: string, roles: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: database })
  await client.connect()
  for (const role of roles) {
    const { rowCount } = await client.query('select from pg_roles where rolname = $1', [role])
    const create = `create role ${client.escapeIdentifier(role)} nologin`
    // A platform of another suite may have made it meanwhile.
    if (rowCount === 0) await client.query(create).catch(unlessThere)
  }
  await client.end()
  const psql = join(await installPostgres(), 'bin', 'psql')
  const strictly = ['--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1']
  await runCommand(psql, [...strictly, '--dbname', database, '--file', dump], { timeoutMs: 60_000 })
}

async function openFixture(
  name: string,
  stack: StackName,
  openEngines: (folder: string, manifest: StackManifest) => Promise<Engines>,
  command?: string,
): Promise<UpgradeStack> {
  const { stacks, ...manifest } = manifestOf(name)
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const removeFolder = () => rmSync(folder, { recursive: true, force: true })
  try {
    await unpack(join(fixtures, name, `${stack}.tar.zst`), folder)
    const engines = await openEngines(folder, stacks[stack])
    const processes = createProcesses({ ...engines.env, ...unaged }, command)
    const home = join(folder, places.home)
    return {
      ...stacks[stack],
      ...manifest,
      home,
      command: (...args) => processes.run(args, home),
      async start() {
        const platform = await processes.start([], { home })
        return { ...platform, webhookUrl: printed(platform, 'webhook_url') }
      },
      async close() {
        await processes.close()
        await engines.close()
        removeFolder()
      },
    }
  } catch (error) {
    removeFolder()
    throw error
  }
}
