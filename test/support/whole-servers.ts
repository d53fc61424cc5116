/** Servers for the whole platform and one seed: three brokers and Qdrant behind silent ways, Postgres, a registry. */

import { freePort } from '../../scripts/servers/children.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { openPostgres, type RunningPostgres } from '../../scripts/servers/postgres.ts'
import { type OwnQdrant, openOwnQdrant } from './distributed-qdrant.ts'
import { newSecretKeyVariable } from './secret-key.ts'
import { registryUrl } from './servers.ts'
import { openSilentProxy, type SilentProxy } from './silent-proxy.ts'

export interface WholeServers {
  kafka: KafkaCluster
  /** The ways to each node, in the order of `kafka.nodes`. */
  ways: SilentProxy[]
  /** Null where no Qdrant is, or none is wanted: the vector engine is embedded then, in one process with all services. */
  qdrant: (OwnQdrant & { ways: [rest: SilentProxy, grpc: SilentProxy] }) | null
  postgres: RunningPostgres
  /** Names the engines. */
  env: Record<string, string>
  close(): Promise<void>
}

export async function openWholeServers(engine: 'qdrant' | 'embedded'): Promise<WholeServers> {
  const ways: SilentProxy[] = []
  const targets: number[] = []
  for (const node of [0, 1, 2]) ways.push(await openSilentProxy(() => targets[node] as number))
  const [kafka, postgres, qdrant, registry] = await Promise.all([
    openKafkaCluster(3, { advertisedPorts: ways.map(({ port }) => port) }),
    openPostgres(),
    engine === 'qdrant' ? openWithWay() : null,
    registryUrl(),
  ])
  targets.push(...kafka.brokers.map(portOf))
  return {
    kafka,
    ways,
    qdrant,
    postgres,
    env: {
      KAFKA_BROKERS: ways.map(({ port }) => `127.0.0.1:${port}`).join(','),
      SCHEMA_REGISTRY_URL: registry,
      DATABASE_URL: postgres.url,
      ...newSecretKeyVariable(),
      ...(qdrant ? addressesOf(qdrant.ways) : {}),
    },
    async close() {
      for (const way of [...ways, ...(qdrant?.ways ?? [])]) way.close()
      await Promise.all([kafka.close(), postgres.close(), qdrant?.kill9()])
    },
  }
}

async function openWithWay() {
  const own = await openOwnQdrant()
  if (own === null) return null
  const open = async (url: string) => openSilentProxy(() => portOf(url), await freePort())
  return { ...own, ways: [await open(own.url), await open(own.grpcUrl)] as [SilentProxy, SilentProxy] }
}

/** Large writes go over gRPC, all else over REST. */
function addressesOf([rest, grpc]: [SilentProxy, SilentProxy]): Record<string, string> {
  return { QDRANT_URL: `http://127.0.0.1:${rest.port}`, QDRANT_GRPC_URL: `http://127.0.0.1:${grpc.port}` }
}

function portOf(address: string): number {
  return Number(address.split(':').at(-1))
}
