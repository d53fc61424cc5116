/** The stack below the bench `fleet`: the `flotilla` command with all services, embedded or on distributed engines. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { stringify } from 'yaml'
import { createMainApi, type MainApi } from '#client/client.ts'
import { readAddresses } from '#runtime/start/addresses.ts'
import startEnvironment from '../../bin/start-environment.json' with { type: 'json' }
import { createProcesses, type Processes } from '../../test/support/distributed-process.ts'
import { type DistributedEngines, openDistributedEngines } from '../distributed-stage.ts'
import { inspectorUrlOf } from '../inspector.ts'
import {
  ownResidentBytes,
  processorSeconds,
  proportionalBytes,
  residentBytes,
  writtenBytes,
} from '../processor-time.ts'
import type { Addresses } from './agents.ts'
import { type StackName, targetNames, workerName } from './mix.ts'

/** A process, or several of one kind, that is watched. */
export interface Watched {
  name: string
  /** Bytes of memory that it has. */
  memory(): number
  /** Seconds of the processor so far. */
  processor(): number
  /** Bytes that it has given to disks so far. */
  written(): number
}

export interface Stack {
  name: StackName
  addresses: Addresses
  /** An agent that may do everything. */
  admin: MainApi
  /** The platform is the first. */
  watched: Watched[]
  inspectorUrl: string
  /** Counts of the engines' work so far, by its name: records of each topic, transactions. */
  counts(): Promise<Record<string, number>>
  close(): Promise<void>
}

/** Where webhooks go, and where the agents are that runs are sent to. */
interface Surroundings {
  hookUrl: string
  nodeUrl: string
}

/** The second one throws where no qdrant executable is on the PATH. */
export async function openStack(
  name: StackName,
  surroundings: Surroundings,
  report: (text: string) => void,
): Promise<Stack> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-fleet-'))
  const engines = name === 'kafka' ? await openDistributedEngines(report) : undefined
  const processes = engines?.processes ?? createProcesses({ LOG_LEVEL: 'error' })
  const close = async () => {
    await (engines ?? processes).close()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const platform = await processes.start([], {
      home: join(folder, 'home'),
      more: settings(folder, surroundings),
    })
    const addresses = addressesOf(platform.home)
    const admin = await openAdmin(processes, platform.home, addresses.baseUrl)
    return {
      name,
      addresses,
      admin,
      watched: [...watchPlatform(platform.child.pid!), ...(engines ? watchEngines(engines) : [])],
      inspectorUrl: inspectorUrlOf(platform.output()),
      counts: async () => ({
        ...(engines ? await countPostgres(engines.env.DATABASE_URL!) : {}),
        ...(await countRecords(admin)),
      }),
      async close() {
        await admin.close()
        await close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** As `flotilla start` begins, with an inspector that reads the heaps. */
function settings(folder: string, { hookUrl, nodeUrl }: Surroundings): Record<string, string> {
  const targets = Object.fromEntries(
    targetNames.map((target) => [
      target,
      { url: `${hookUrl}/${target}`, ...(target === 'alerts' ? { events: ['task.failed'] } : {}) },
    ]),
  )
  const nodes = Object.fromEntries(
    [workerName, 'axon'].map((slug) => [slug, { url: nodeUrl, concurrency: 64 }]),
  )
  const [targetsFile, nodesFile] = [join(folder, 'targets.yaml'), join(folder, 'nodes.yaml')]
  writeFileSync(targetsFile, stringify({ targets }))
  writeFileSync(nodesFile, stringify({ nodes }))
  return {
    ...startEnvironment,
    NODE_OPTIONS: `${startEnvironment.NODE_OPTIONS} --inspect=127.0.0.1:0`,
    WEBHOOK_TARGETS_FILE: targetsFile,
    RUN_NODES_FILE: nodesFile,
  }
}

function addressesOf(home: string): Addresses {
  const file = readAddresses(home)
  if (!file) throw new Error('the platform wrote no addresses')
  return {
    vectorUrl: String(file.vector_url),
    hubUrl: String(file.hub_url),
    runUrl: String(file.agent_gateway_url),
    relayUrl: String(file.webhook_url),
    baseUrl: String(file.base_url),
  }
}

const adminId = 'fleet-admin'

async function openAdmin(processes: Processes, home: string, baseUrl: string): Promise<MainApi> {
  const provision = [
    'agents',
    'provision',
    '--agent-id',
    adminId,
    '--access',
    'admin',
    '--tier',
    'infra-architect',
  ]
  await processes.run([...provision, '--volume', join(home, '..', adminId)], home)
  const { key } = await processes.run<{ key: string }>(['agent-keys', 'issue', adminId], home)
  return createMainApi({ baseUrl, agentKey: key })
}

/** The processes that merge indexes come and go: only the memory of the platform itself says whether it grows. */
function watchPlatform(pid: number): Watched[] {
  return [
    watch('platform', [pid], ownResidentBytes),
    {
      name: 'processes below the platform',
      memory: () => Math.max(0, residentBytes(pid) - ownResidentBytes(pid)),
      // Part of the platform's own figure, which counts its children.
      processor: () => 0,
      written: () => 0,
    },
  ]
}

function watchEngines({ pids }: DistributedEngines): Watched[] {
  return [
    ...pids.kafka.map((pid, n) => watch(`broker ${n + 1}`, [pid])),
    watch('registry', [pids.registry]),
    watch('Postgres', [pids.postgres], proportionalBytes),
    watch('Qdrant', [pids.qdrant]),
  ]
}

/** `memory`: RSS unless said otherwise. */
export function watch(name: string, pids: number[], memory = residentBytes): Watched {
  const sum = (read: (pid: number) => number) => () => pids.reduce((total, pid) => total + read(pid), 0)
  return { name, memory: sum(memory), processor: sum(processorSeconds), written: sum(writtenBytes) }
}

/** Offsets that each topic spans. */
async function countRecords(admin: MainApi): Promise<Record<string, number>> {
  const { topics } = await admin.request<{ topics: { topic: string; records: number }[] }>(
    'GET',
    'log/topics',
  )
  return Object.fromEntries(topics.map(({ topic, records }) => [`records of ${topic}`, records]))
}

async function countPostgres(connectionString: string): Promise<Record<string, number>> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    const { rows } = await client.query<{ transactions: string; wal: string }>(
      `select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as wal,
         (select sum(xact_commit) from pg_stat_database) as transactions`,
    )
    return {
      'transactions of Postgres': Number(rows[0]!.transactions),
      'bytes of WAL of Postgres': Number(rows[0]!.wal),
    }
  } finally {
    await client.end()
  }
}
