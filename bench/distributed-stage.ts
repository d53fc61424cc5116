/**
 * The platform on distributed engines: three brokers with Kafka's own limits, a schema registry, Postgres and a real
 * Qdrant, each a process of its own, whose processor time is read.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { QdrantClient } from '@qdrant/js-client-rest'
import { createClient } from '#client/client.ts'
import { services } from '#services/index.ts'
import startEnvironment from '../bin/start-environment.json' with { type: 'json' }
import { type KafkaCluster, openKafkaCluster } from '../scripts/servers/kafka.ts'
import { openPostgres } from '../scripts/servers/postgres.ts'
import { findQdrant, openQdrant } from '../scripts/servers/qdrant.ts'
import { openRegistry } from '../scripts/servers/registry.ts'
import { createProcesses, type Processes, type ServiceProcess } from '../test/support/distributed-process.ts'
import { newSecretKeyVariable } from '../test/support/secret-key.ts'
import { runLoad } from './load.ts'
import { createPointSource } from './points.ts'
import { processorSeconds } from './processor-time.ts'

export interface DistributedEngines {
  kafka: KafkaCluster
  qdrantUrl: string
  /** The environment that names these engines. */
  env: Record<string, string>
  /** Ids of the servers' processes; Postgres has further processes below it. */
  pids: { kafka: number[]; registry: number; qdrant: number; postgres: number }
  /** Processes of the `flotilla` command on these engines. */
  processes: Processes
  /** Processor seconds that each has used so far. */
  used(platform?: ServiceProcess[]): ProcessorTimes
  close(): Promise<void>
}

/** In seconds; `kafka` is of all brokers together. */
export type ProcessorTimes = Record<'platform' | 'kafka' | 'qdrant' | 'postgres', number>

/** Throws where no qdrant executable is on the PATH. */
export async function openDistributedEngines(
  report: (text: string) => void,
  { ownLimits = true, measured = false }: { ownLimits?: boolean; measured?: boolean } = {},
): Promise<DistributedEngines> {
  const executable = findQdrant()
  if (executable === null) throw new Error('this bench needs a qdrant executable on the PATH')
  const servers = await Promise.all([
    openKafkaCluster(3, { ownLimits, asInProduction: true, measured }),
    openRegistry(),
    openPostgres(),
    openQdrant(executable),
  ])
  const [kafka, registry, postgres, qdrant] = servers
  const env = {
    KAFKA_BROKERS: kafka.brokers.join(','),
    SCHEMA_REGISTRY_URL: registry.url,
    DATABASE_URL: postgres.url,
    ...newSecretKeyVariable(),
    QDRANT_URL: qdrant.url,
    QDRANT_GRPC_URL: qdrant.grpcUrl,
  }
  const processes = createProcesses({ ...env, LOG_LEVEL: 'error' })
  report('  three brokers, registry, Postgres and Qdrant serve')
  return {
    kafka,
    qdrantUrl: qdrant.url,
    env,
    pids: {
      kafka: kafka.nodes.map((node) => kafka.pid(node)),
      registry: registry.pid,
      qdrant: qdrant.pid,
      postgres: postgres.pid,
    },
    processes,
    used: (platform = []) => ({
      platform: platform.reduce((sum, { child }) => sum + processorSeconds(child.pid!), 0),
      kafka: kafka.nodes.reduce((sum, node) => sum + processorSeconds(kafka.pid(node)), 0),
      qdrant: processorSeconds(qdrant.pid),
      postgres: processorSeconds(postgres.pid),
    }),
    async close() {
      await processes.close()
      await Promise.all(servers.map((server) => server.close()))
    },
  }
}

export interface DistributedStage extends DistributedEngines {
  platform: ServiceProcess
  /** A folder that goes when the stage is closed. */
  volume: string
  agentId: string
  privateKeyFile: string
  /** A live gateway key of an agent without limits. */
  key: string
  /** Resolves when every group that runs has committed all there is. */
  caughtUp(): Promise<void>
  /** Processor seconds that `work` costs in each process. */
  cost(work: () => Promise<unknown>): Promise<ProcessorTimes>
}

const agentId = 'bench'
const caughtUpWithinMs = 300_000

/** One process runs all services but those of `without`; `more` are further variables of it. */
export async function openDistributedStage(
  report: (text: string) => void,
  without: string[] = [],
  more: Record<string, string> = {},
  options: { measured?: boolean } = {},
): Promise<DistributedStage> {
  const engines = await openDistributedEngines(report, options)
  const volume = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  const close = async () => {
    await engines.close()
    rmSync(volume, { recursive: true, force: true })
  }
  try {
    const { processes } = engines
    const names = services.map(({ name }) => name).filter((name) => !without.includes(name))
    // As `flotilla start` begins.
    const begins = { ...startEnvironment, ...more }
    const nodeOptions = [startEnvironment.NODE_OPTIONS, more.NODE_OPTIONS].filter(Boolean).join(' ')
    const platform = await processes.start(without.length > 0 ? names : [], {
      more: { ...begins, NODE_OPTIONS: nodeOptions },
    })
    const privateKeyFile = await provision(processes, join(volume, agentId), agentId)
    const client = createClient({ vectorUrl: platform.vectorUrl, agentId, privateKeyFile })
    const key = await client.apiKey()
    await client.close()
    report('  the platform serves')
    const used = () => engines.used([platform])
    return {
      ...engines,
      platform,
      volume,
      agentId,
      privateKeyFile,
      key,
      caughtUp: () => untilCaughtUp(platform),
      async cost(work) {
        const before = used()
        await work()
        return difference(used(), before)
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

const warmUp = { requests: 6_000, bodies: 200, points: 5, clients: 4 }

/**
 * Small requests, as many as brokers need to be as in production: they compile what they run often, and their processor time for
 * a request falls to a third meanwhile. In the middle of that their compilers use as much as the requests do.
 */
export async function warmBrokers({ platform, key, caughtUp }: DistributedStage): Promise<void> {
  const source = createPointSource(5)
  const bodies = Array.from({ length: warmUp.bodies }, (_, n) => {
    const points = Array.from({ length: warmUp.points }, (_, i) => source.point(`warm-${n}-${i}`))
    return Buffer.from(JSON.stringify({ collection: 'posts', points }))
  })
  const target = {
    origin: platform.vectorUrl,
    path: '/v1/vectors/upsert',
    headers: { authorization: `Bearer ${key}` },
  }
  await runLoad(target, bodies, warmUp.clients, warmUp.requests)
  await caughtUp()
}

/** An agent without limits; the file of its private key. */
export async function provision(processes: Processes, volume: string, agentId: string): Promise<string> {
  const args = ['agents', 'provision', '--agent-id', agentId, '--tier', 'infra-architect', '--volume', volume]
  return (await processes.run<{ private_key_file: string }>(args)).private_key_file
}

/** The peer. Without compression, which the client asks for by itself: an answer comes 40 ms later with it. */
export function openBareClient(url: string): QdrantClient {
  return new QdrantClient({ url, headers: { 'accept-encoding': 'identity' }, checkCompatibility: false })
}

/** Qdrant closes connections that rest while others have their turn, and the bare client meets that as a failed fetch. */
export function evenIfClosed<T>(call: () => Promise<T>): Promise<T> {
  return call().catch((error) => {
    if (!(error instanceof TypeError)) throw error
    return call()
  })
}

export function difference(after: ProcessorTimes, before: ProcessorTimes): ProcessorTimes {
  return {
    platform: after.platform - before.platform,
    kafka: after.kafka - before.kafka,
    qdrant: after.qdrant - before.qdrant,
    postgres: after.postgres - before.postgres,
  }
}

/** By the platform's own figures: asking the brokers would cost them more than a round of requests does. */
async function untilCaughtUp({ vectorUrl }: ServiceProcess): Promise<void> {
  const end = Date.now() + caughtUpWithinMs
  while (Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 500))
    const answer = await fetch(`${vectorUrl}/metrics`, { signal: AbortSignal.timeout(10_000) })
    const lags = (await answer.text()).matchAll(/^flotilla_consumer_lag_records\{.*\} (\d+)$/gm)
    if ([...lags].every(([, lag]) => lag === '0')) return
  }
  throw new Error('the groups have not caught up')
}
