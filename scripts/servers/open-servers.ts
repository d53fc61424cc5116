/** Opens each server when it is first asked for, once a run; an address from the environment wins. */

import {
  hasContainerEngine,
  openKafkaContainer,
  openPostgresContainer,
  openRegistryContainer,
} from './containers.ts'
import { openKafkaCluster } from './kafka.ts'
import { openPostgres } from './postgres.ts'
import { findQdrant, openQdrant } from './qdrant.ts'
import { openRegistry, type RunningServer } from './registry.ts'

export type ServerName = 'kafka' | 'registry' | 'postgres' | 'qdrant'

export interface Servers {
  /** Where the server answers: `host:port,…` for Kafka, else a URL. Null only for a Qdrant that is not there. */
  address(name: ServerName): Promise<string | null>
  /** True when the address came from the environment: then the server is not ours to fill with leftovers. */
  foreign(name: ServerName): boolean
  close(): Promise<void>
}

const variables = {
  kafka: 'KAFKA_BROKERS',
  registry: 'SCHEMA_REGISTRY_URL',
  postgres: 'DATABASE_URL',
  qdrant: 'QDRANT_URL',
} as const satisfies Record<ServerName, string>

export function createServers(env: Record<string, string | undefined>): Servers {
  const opening = new Map<ServerName, Promise<RunningServer | null>>()
  const given = (name: ServerName) => env[variables[name]] || undefined
  return {
    async address(name) {
      const address = given(name)
      if (address !== undefined) return address
      let server = opening.get(name)
      if (!server) {
        server = openers[name]()
        opening.set(name, server)
      }
      return (await server)?.url ?? null
    },
    foreign: (name) => given(name) !== undefined,
    async close() {
      const opened = await Promise.allSettled(opening.values())
      await Promise.all(
        opened.map((result) => (result.status === 'fulfilled' ? result.value?.close() : undefined)),
      )
    },
  }
}

const openers: Record<ServerName, () => Promise<RunningServer | null>> = {
  kafka: () =>
    orContainer('Kafka', openKafkaContainer, async () => {
      const cluster = await openKafkaCluster(1)
      return { url: cluster.brokers.join(','), close: cluster.close }
    }),
  registry: () => orContainer('the schema registry', openRegistryContainer, openRegistry),
  postgres: () => orContainer('Postgres', openPostgresContainer, openPostgres),
  qdrant: async () => {
    const executable = findQdrant()
    return executable === null ? null : openQdrant(executable)
  },
}

/** The local way first; a container where that fails and a container engine answers; else the local way's fault. */
async function orContainer(
  name: string,
  inContainer: () => Promise<RunningServer>,
  local: () => Promise<RunningServer>,
): Promise<RunningServer> {
  try {
    return await local()
  } catch (error) {
    if (!(await hasContainerEngine())) throw error
    console.error(`${name} runs in a container, because it could not be started here: ${String(error)}`)
    return inContainer()
  }
}
