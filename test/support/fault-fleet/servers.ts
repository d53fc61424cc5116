/**
 * The servers of a distributed stack, each of which can be killed, started again and reached badly: three brokers, a
 * registry, Postgres, and Qdrant or, where none is, a small one in memory.
 */

import { openKafkaCluster } from '../../../scripts/servers/kafka.ts'
import { openPostgres } from '../../../scripts/servers/postgres.ts'
import { findQdrant } from '../../../scripts/servers/qdrant.ts'
import { openRegistry } from '../../../scripts/servers/registry.ts'
import { openOwnQdrant } from '../distributed-qdrant.ts'
import { openFakeQdrant } from '../qdrant-fake.ts'
import { newSecretKeyVariable } from '../secret-key.ts'
import { openWay, type Way } from './way.ts'

/** A server as its clients reach it. */
export interface FleetServer {
  name: string
  way: Way
  /** kill -9. */
  kill(): Promise<void>
  /** Resolves when it serves what it held. */
  start(): Promise<void>
}

export interface FleetServers {
  brokers: FleetServer[]
  registry: FleetServer
  postgres: FleetServer
  qdrant: FleetServer
  /** Whether Qdrant is a real one. */
  realQdrant: boolean
  all: FleetServer[]
  /** Names the engines, by their ways. */
  env: Record<string, string>
  close(): Promise<void>
}

/** `brokerData`: the log directory of each broker, for brokers on volumes of a test's own. */
export async function openFleetServers(brokerData?: readonly string[]): Promise<FleetServers> {
  const ports: number[] = []
  const ways = await Promise.all([0, 1, 2].map((node) => openWay(() => ports[node] as number)))
  const started = await Promise.all([
    openKafkaCluster(3, {
      advertisedPorts: ways.map(({ port }) => port),
      ownLimits: true,
      ...(brokerData ? { dataOfNodes: brokerData } : {}),
    }),
    openRegistry({ kept: true }),
    openPostgres(),
    openQdrant(),
  ])
  const [kafka, registry, postgres, qdrant] = started
  ports.push(...kafka.brokers.map(portOf))
  const brokers = kafka.nodes.map((node, n) =>
    serverOf(`broker ${node}`, ways[n] as Way, {
      kill: () => kafka.kill9(node),
      start: () => kafka.start(node),
    }),
  )
  const reached = async (name: string, url: string, { kill, start }: Pick<FleetServer, 'kill' | 'start'>) =>
    serverOf(name, await openWay(() => portOf(url)), { kill, start })
  const registryServer = await reached('registry', registry.url, {
    kill: registry.kill9,
    start: registry.start,
  })
  const postgresServer = await reached('Postgres', postgres.url, {
    kill: postgres.kill9,
    start: postgres.start,
  })
  const qdrantServer = await reached('Qdrant', qdrant.url, qdrant)
  const all = [...brokers, registryServer, postgresServer, qdrantServer]
  return {
    brokers,
    registry: registryServer,
    postgres: postgresServer,
    qdrant: qdrantServer,
    realQdrant: qdrant.real,
    all,
    env: {
      KAFKA_BROKERS: ways.map(({ port }) => `127.0.0.1:${port}`).join(','),
      SCHEMA_REGISTRY_URL: withPort(registry.url, registryServer.way.port),
      DATABASE_URL: withPort(postgres.url, postgresServer.way.port),
      QDRANT_URL: withPort(qdrant.url, qdrantServer.way.port),
      ...newSecretKeyVariable(),
    },
    async close() {
      for (const { way } of all) way.close()
      await Promise.all(started.map((server) => server.close()))
    },
  }
}

function serverOf(name: string, way: Way, { kill, start }: Pick<FleetServer, 'kill' | 'start'>): FleetServer {
  return {
    name,
    way,
    async kill() {
      way.cut()
      await kill()
    },
    async start() {
      await start()
      await way.mend()
    },
  }
}

async function openQdrant() {
  const own = findQdrant() === null ? null : await openOwnQdrant()
  if (own) return { url: own.url, real: true, kill: own.kill9, start: own.start, close: own.kill9 }
  console.error('\n*** No qdrant executable on the PATH: a SMALL QDRANT IN MEMORY takes its place. ***\n')
  const fake = await openFakeQdrant()
  // It loses nothing: a kill only cuts its way.
  const nothing = async () => {}
  return { url: fake.url, real: false, kill: nothing, start: nothing, close: fake.close }
}

function portOf(address: string): number {
  return Number(/:(\d+)(\/|$)/.exec(address)?.[1])
}

function withPort(url: string, port: number): string {
  return url.replace(/:\d+(\/|$)/, `:${port}$1`)
}
