/** One seed of the whole platform: start, load and faults, quiet, and everything compared twice. */

import { join } from 'node:path'
import { pino } from 'pino'
import { type Client, createClient } from '#client/client.ts'
import { readLag } from '#operations/lag.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { openSecrets } from '#services/access/secrets/secrets.ts'
import { migrationFolders } from '#services/migrations.ts'
import { createOperationIds, loadOperationSecret } from '#services/vectors/read/operations/operations.ts'
import { indexes, listGenerations } from '#services/vectors/write/rebuild.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { eventually } from './eventually.ts'
import { temporaryFolder } from './temporary.ts'
import { createFaults, type Faults } from './whole-faults.ts'
import { createHistory, type History } from './whole-history.ts'
import { faultsOf } from './whole-model.ts'
import { startWholeProcesses, type WholeProcesses } from './whole-processes.ts'
import type { Fault } from './whole-schedule.ts'
import { openWholeServers, type WholeServers } from './whole-servers.ts'
import {
  differences,
  readIndex,
  readLog,
  readMirror,
  withoutAuditNotes,
  withoutNewNotes,
} from './whole-state.ts'
import { startWorkload } from './whole-workload.ts'

export interface WholeRun {
  seed: number
  engine: 'qdrant' | 'embedded'
  schedule: readonly Fault[]
  /** How long after the last fault every group may take to read the rest. */
  quietMsMax: number
}

export interface Outcome {
  /** Broken promises; empty when all were kept. */
  faults: string[]
  journal: string[]
  /** For the figures. */
  history: History
  counts: Faults['counts']
  records: number
}

interface Agent {
  agentId: string
  privateKeyFile: string
}

const agents = ['whale', 'otter']
const faultsShownMax = 20

export async function runWholePlatform(run: WholeRun): Promise<Outcome> {
  const servers = await openWholeServers(run.engine)
  let processes: WholeProcesses | undefined
  try {
    processes = await startWholeProcesses(servers.env, servers.qdrant === null)
    return await runOn(servers, processes, run)
  } finally {
    await processes?.close()
    await servers.close()
  }
}

async function runOn(servers: WholeServers, processes: WholeProcesses, run: WholeRun): Promise<Outcome> {
  const history = createHistory()
  const provisioned = await Promise.all(agents.map((agentId) => provision(processes, agentId)))
  const faults = createFaults(servers, processes)
  const workload = startWorkload({ ...processes, agents: provisioned, seed: run.seed, history })
  await faults.run(run.schedule)
  await workload.stop()
  const outcome = { ...faults, history, faults: [...history.surprises, ...faults.failures], records: 0 }
  try {
    await checkAll(servers, processes, { run, outcome, agent: provisioned[0] as Agent })
  } catch (error) {
    outcome.faults.push(`it could not be compared: ${error}`)
  }
  return outcome
}

async function checkAll(
  servers: WholeServers,
  processes: WholeProcesses,
  { run, outcome, agent }: { run: WholeRun; outcome: Outcome; agent: Agent },
): Promise<void> {
  const vectorUrl = processes.gateways[0]?.vectorUrl as string
  const client = createClient({ ...agent, vectorUrl, retryFor: 120 })
  const platform = await openPlatform({
    env: { ...servers.env, FLOTILLA_HOME: temporaryFolder() },
    needs: ['mirror'],
    migrations: migrationFolders,
    producerName: 'tests',
    log: pino({ level: 'silent' }),
    lock: false,
  })
  const quiet = async () => {
    const begun = performance.now()
    await untilQuiet(platform, run.quietMsMax)
    outcome.journal.push(`quiet after ${Math.round((performance.now() - begun) / 1_000)} s`)
  }
  try {
    await quiet()
    outcome.faults.push(...(await checkHistory(platform, outcome.history)))
    const { records, faults } = await compare(platform, client, 'the index')
    outcome.records = records
    outcome.faults.push(...faults)
    await processes.command('rebuild', 'vectors')
    await quiet()
    outcome.faults.push(...(await compare(platform, client, 'the rebuilt index')).faults)
  } finally {
    await client.close()
    await platform.close()
  }
}

async function provision(processes: WholeProcesses, agentId: string): Promise<Agent> {
  const volume = join(temporaryFolder(), agentId)
  const who = ['--agent-id', agentId, '--tier', 'infra-architect', '--volume', volume]
  const provisioned = await processes.command<{ private_key_file: string }>('agents', 'provision', ...who)
  return { agentId, privateKeyFile: provisioned.private_key_file }
}

/** Every group has read everything, and no generation is being built. */
async function untilQuiet(platform: Platform, timeoutMs: number): Promise<void> {
  const { relational } = platform.engines
  let seen = ''
  const quiet = async () => {
    const states = await Promise.all(indexes.map((index) => listGenerations(relational, index)))
    const building = states.flat().filter(({ state }) => state === 'building' || state === 'switching')
    const groups = await readLag(platform)
    const behind = groups.filter(
      ({ group, lag }) => lag > 0 && /^(vector|relational|audit)-writer/.test(group),
    )
    seen = JSON.stringify([building, behind.map(({ group, lag, members }) => ({ group, lag, members }))])
    return building.length === 0 && behind.length === 0
  }
  await eventually('every group has read everything', quiet, timeoutMs).catch((error: unknown) => {
    throw new Error(`${error}, left: ${seen}`)
  })
}

async function checkHistory(platform: Platform, history: History): Promise<string[]> {
  const { log } = await readLog(platform)
  const ids = createOperationIds(
    await loadOperationSecret(await openSecrets(platform.engines.relational, platform.env)),
  )
  return faultsOf({ history, log, parse: (id) => ids.decode(id) })
}

/** The log against the index and the mirror, and no record may be among the dead letters. */
async function compare(platform: Platform, client: Client, name: string) {
  const { last, records } = await readLog(platform)
  const index = withoutNewNotes(await readIndex(client), last)
  const letters = await platform.engines.eventLog.offsets(`${vectorsCommands.name}.dead-letters`)
  const parked = letters.reduce((sum, { start, end }) => sum + end - start, 0)
  return {
    records,
    faults: [
      ...differences(name, last, index),
      ...differences('the mirror', withoutAuditNotes(last), await readMirror(platform)),
      ...(parked > 0 ? [`${parked} records are among the dead letters`] : []),
    ],
  }
}

/** A report that says what went wrong and what happened before it. */
export function reportOf(run: WholeRun, outcome: Outcome): string {
  const { faults, journal } = outcome
  return [
    `seed ${run.seed} (${run.engine}): ${faults.length} faults`,
    ...faults.slice(0, faultsShownMax),
    'what happened:',
    ...journal,
  ].join('\n')
}

/** How often each thing happened. */
export type Figures = Record<string, number>

export function figuresOf({ history, counts, records }: Outcome): Figures {
  const acknowledged = history.writes.filter(({ outcome }) => outcome === 'acknowledged').length
  return {
    writes: history.writes.length,
    acknowledged,
    'reads of a key with after': history.reads.length,
    records,
    ...counts,
    ...history.faults,
  }
}

export function addFigures(sum: Figures, more: Figures): void {
  for (const [what, count] of Object.entries(more)) sum[what] = (sum[what] ?? 0) + count
}
