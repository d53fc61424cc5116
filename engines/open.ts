/**
 * Chooses and opens the engines that services need. This is the one file that names drivers: an engine whose address
 * the environment holds is the distributed one, every other runs embedded in this process.
 */

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { type Static, Type } from 'typebox'
import { AppError, describeError } from '#lib/errors.ts'
import { type Closeable, createScope, type Scope } from '#lib/resource.ts'
import type { TlsEngine } from '#lib/tls.ts'
import { checkDriverPackages } from './driver-packages.ts'
import type { Embedder } from './embedder/port.ts'
import { checkEmbedderSettings, embedderSettings, embeddingsEndpoint } from './embedder/settings.ts'
import type { LogSnapshot } from './event-log/embedded/log-file.ts'
import type { EventLog } from './event-log/port.ts'
import { checkEventLogSettings, eventLogSettings, kafkaConnection, kafkaTls } from './event-log/settings.ts'
import type { IdentityEngine } from './identity/port.ts'
import { checkIdentitySettings, identitySettings } from './identity/settings.ts'
import type { Mirror } from './relational/mirror/port.ts'
import type { Relational } from './relational/port.ts'
import { postgresTls, relationalSettings } from './relational/settings.ts'
import type { SchemaRegistry } from './schema-registry/port.ts'
import { registryConnection, registryTls, schemaRegistrySettings } from './schema-registry/settings.ts'
import { collections, vectorDimension } from './vectors/collections.ts'
import type { VectorStore } from './vectors/port.ts'
import { checkVectorSettings, qdrantConnection, qdrantTls, vectorSettings } from './vectors/settings.ts'

/** Environment variables that choose and reach the engines. */
export const engineSettings = Type.Object({
  ...eventLogSettings.properties,
  ...schemaRegistrySettings.properties,
  ...vectorSettings.properties,
  ...relationalSettings.properties,
  ...embedderSettings.properties,
  ...identitySettings.properties,
})

export type EngineSettings = Static<typeof engineSettings>

export interface OpenEngines {
  eventLog: EventLog
  schemaRegistry: SchemaRegistry
  vectors: VectorStore
  relational: Relational
  mirror: Mirror
  embedder: Embedder
  localEmbedder: Embedder
  identity: IdentityEngine
}

type Name = keyof OpenEngines

export interface EngineChoice {
  driver: string
  /** Owned by one process: its data lie in this process's data directory. */
  embedded: boolean
  /** Naming the distributed engine in this variable makes it shared. */
  variable: string
}

/** Which driver each engine gets. Throws AppError `invalid_configuration` for contradictions and missing packages. */
export function chooseEngines(settings: EngineSettings): Record<Name, EngineChoice> {
  checkEventLogSettings(settings)
  enginesOverTls(settings)
  checkVectorSettings(settings)
  checkEmbedderSettings(settings)
  checkIdentitySettings(settings)
  const choice = (variable: keyof EngineSettings, named: string, otherwise: string): EngineChoice => {
    const driver = settings[variable] ? named : otherwise
    return { driver, embedded: driver === 'embedded', variable }
  }
  const choices: Record<Name, EngineChoice> = {
    eventLog: choice('KAFKA_BROKERS', 'kafka', 'embedded'),
    // Both folders are read-only: any number of processes may share them.
    schemaRegistry: choice('SCHEMA_REGISTRY_URL', 'confluent', 'folder'),
    vectors: choice('QDRANT_URL', 'qdrant', 'embedded'),
    relational: choice('DATABASE_URL', 'postgres', 'embedded'),
    mirror: choice('DATABASE_URL', 'postgres', 'embedded'),
    embedder: choice('EMBEDDINGS_URL', 'openai', 'local'),
    localEmbedder: { driver: 'local', embedded: false, variable: 'EMBEDDINGS_URL' },
    // What the local issuer keeps is in the relational engine: any number of processes are one issuer.
    identity: choice('FIREBASE_PROJECT_ID', 'firebase', 'local'),
  }
  checkDriverPackages([...Object.values(choices), choice('QDRANT_GRPC_URL', 'qdrant-grpc', 'none')])
  return choices
}

/** The engines that these settings reach over TLS. Throws AppError `invalid_configuration` for files that are no use. */
export function enginesOverTls(settings: EngineSettings): TlsEngine[] {
  return [kafkaTls, registryTls, qdrantTls, postgresTls].flatMap((tlsOf) => tlsOf(settings) ?? [])
}

/**
 * Refuses services that would share an embedded engine with services of other processes. `needs` are the engines of
 * each service; `chosen` are the services that this process is to run.
 */
export function refuseSharing(
  choices: Record<Name, EngineChoice>,
  needs: ReadonlyMap<string, readonly Name[]>,
  chosen: readonly string[],
): void {
  const others = [...needs.keys()].filter((service) => !chosen.includes(service))
  const shared = (Object.keys(choices) as Name[]).filter((engine) => {
    const usedBy = (services: readonly string[]) =>
      services.some((service) => needs.get(service)?.includes(engine))
    return choices[engine].embedded && usedBy(chosen) && usedBy(others)
  })
  if (shared.length === 0) return
  const variables = shared.map((engine) => choices[engine].variable).join(', ')
  throw new AppError(
    'invalid_configuration',
    `An embedded engine belongs to one process, and ${others.join(', ')} would need it, too: set ` +
      `${variables}, or start all services in one process with \`flotilla start\`.`,
  )
}

interface OpenEnginesOptions {
  settings: EngineSettings
  needs: Iterable<Name>
  /** Embedded engines keep their data in folders below it. */
  directory: string
  schemasDirectory: string
  /** Names this process to the engines. */
  clientId: string
  log: Logger
}

/** Opens the needed engines, once each and all at the same time; closes them again, also when one of them does not open. */
export async function openEngines(
  options: OpenEnginesOptions,
): Promise<{ engines: Partial<OpenEngines> } & Closeable> {
  const scope = createScope((name, error) =>
    options.log.error({ engine: name, err: error }, 'engine.close-failed'),
  )
  const engines: Partial<OpenEngines> = {}
  const opening = [...new Set(options.needs)].map((name) => openOne(name, engines, options, scope))
  const failed = (await Promise.allSettled(opening)).find((result) => result.status === 'rejected')
  if (failed) {
    await scope.close()
    throw failed.reason
  }
  return { engines, close: () => scope.close() }
}

/** What would stop each embedded engine from opening its files, as far as they are there. Makes and changes nothing. */
export async function embeddedFaults(
  settings: EngineSettings,
  directory: string,
): Promise<{ engine: Name; error: unknown }[]> {
  const choices = chooseEngines(settings)
  const checks: [Name, () => Promise<void>][] = [
    [
      'eventLog',
      async () =>
        (await import('./event-log/embedded/log-file.ts')).checkLogFile(join(directory, folders.eventLog)),
    ],
    [
      'vectors',
      async () => {
        const { checkPointsFile } = await import('./vectors/embedded/points-file.ts')
        checkPointsFile(join(directory, folders.vectors), vectorDimension)
      },
    ],
    [
      'relational',
      async () =>
        (await import('./relational/pglite-cluster.ts')).checkCluster(join(directory, folders.relational)),
    ],
  ]
  const faults: { engine: Name; error: unknown }[] = []
  for (const [engine, check] of checks) {
    if (!choices[engine].embedded) continue
    await check().catch((error: unknown) => faults.push({ engine, error }))
  }
  return faults
}

/** What the embedded log of this data directory holds now, to be copied while the log goes on. */
export async function snapshotLog(directory: string): Promise<LogSnapshot> {
  const { openLogSnapshot } = await import('./event-log/embedded/log-file.ts')
  return openLogSnapshot(join(directory, folders.eventLog))
}

async function openOne<N extends Name>(
  name: N,
  engines: Partial<OpenEngines>,
  options: OpenEnginesOptions,
  scope: Scope,
): Promise<void> {
  const engine = await openers[name](options)
  engines[name] = scope.add(name, engine)
}

const openers: { [N in Name]: (options: OpenEnginesOptions) => Promise<OpenEngines[N]> } = {
  eventLog: openEventLog,
  schemaRegistry: openSchemaRegistry,
  vectors: openVectors,
  relational: openRelational,
  mirror: openMirror,
  embedder: openEmbedder,
  localEmbedder: openLocal,
  identity: openIdentity,
}

async function openEventLog({ settings, directory, clientId, log }: OpenEnginesOptions): Promise<EventLog> {
  const cluster = kafkaConnection(settings)
  if (cluster) {
    const { openKafkaLog } = await import('./event-log/kafka.ts')
    return openKafkaLog({ ...cluster, clientId, log })
  }
  const { openEmbeddedLog } = await import('./event-log/embedded.ts')
  return openEmbeddedLog({
    directory: folder(directory, folders.eventLog),
    onFault: (error) => log.error({ reason: describeError(error) }, 'event-log.fault'),
  })
}

async function openSchemaRegistry(options: OpenEnginesOptions): Promise<SchemaRegistry> {
  const server = registryConnection(options.settings)
  if (server) {
    const { openConfluentRegistry } = await import('./schema-registry/confluent.ts')
    return openConfluentRegistry(server)
  }
  const { openFolderRegistry } = await import('./schema-registry/folder.ts')
  return openFolderRegistry({ directory: options.schemasDirectory })
}

async function openVectors({ settings, directory, log }: OpenEnginesOptions): Promise<VectorStore> {
  const server = qdrantConnection(settings)
  if (server) {
    const { openQdrantVectors } = await import('./vectors/qdrant.ts')
    return openQdrantVectors({ ...server, collections, log })
  }
  const { openEmbeddedVectors } = await import('./vectors/embedded.ts')
  return openEmbeddedVectors({ directory: folder(directory, folders.vectors), collections, log })
}

async function openRelational({ settings, directory, log }: OpenEnginesOptions): Promise<Relational> {
  if (settings.DATABASE_URL) {
    const { openPostgres } = await import('./relational/postgres.ts')
    return openPostgres({ url: settings.DATABASE_URL, log })
  }
  const { openPglite } = await import('./relational/pglite.ts')
  return openPglite({ directory: folder(directory, folders.relational), log })
}

/** A Postgres that is not the platform's: the target of a sink. `url` may hold a secret. */
export async function openForeignPostgres(url: string, log: Logger): Promise<Relational> {
  const { openPostgres } = await import('./relational/postgres.ts')
  return openPostgres({ url, log, poolMax: 2 })
}

async function openMirror({ settings, directory, log }: OpenEnginesOptions): Promise<Mirror> {
  if (settings.DATABASE_URL) {
    const { openPostgresMirror } = await import('./relational/mirror/postgres.ts')
    return openPostgresMirror({ url: settings.DATABASE_URL, log })
  }
  const { openPgliteMirror } = await import('./relational/mirror/pglite.ts')
  return openPgliteMirror({ directory: folder(directory, folders.mirror), log })
}

async function openEmbedder({ settings }: OpenEnginesOptions): Promise<Embedder> {
  const endpoint = embeddingsEndpoint(settings)
  if (!endpoint) return openLocal({ settings })
  const { openOpenAiEmbedder } = await import('./embedder/openai.ts')
  return openOpenAiEmbedder(endpoint)
}

async function openLocal({ settings }: Pick<OpenEnginesOptions, 'settings'>): Promise<Embedder> {
  const { openLocalEmbedder } = await import('./embedder/local.ts')
  return openLocalEmbedder(settings.EMBEDDER)
}

async function openIdentity({ settings }: OpenEnginesOptions): Promise<IdentityEngine> {
  if (settings.FIREBASE_PROJECT_ID) {
    const { openFirebaseIdentity } = await import('./identity/firebase.ts')
    const emulated = settings.FIREBASE_AUTH_EMULATOR_HOST !== undefined
    return openFirebaseIdentity({ projectId: settings.FIREBASE_PROJECT_ID, emulated })
  }
  const { openLocalIdentity } = await import('./identity/local.ts')
  return openLocalIdentity()
}

/** Where the embedded engines keep their files, below the data directory. */
export const folders = {
  eventLog: 'log',
  vectors: 'vectors',
  relational: 'postgres',
  mirror: 'mirror',
} as const

function folder(directory: string, name: string): string {
  const path = join(directory, name)
  mkdirSync(path, { recursive: true, mode: 0o700 })
  return path
}
