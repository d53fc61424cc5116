/**
 * The gateway under measurement, in a process of its own: its relational engine is the PostgreSQL that is named, or the
 * embedded one.
 */

import { pino } from 'pino'
import { type RunningPlatform, startPlatform } from '#runtime/start/start.ts'
import { type NewAgent, provisionAgent, waitUntilPublished } from '#services/access/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { serveForked } from './forked.ts'
import { createPointSource } from './points.ts'

const [home, databaseUrl] = process.argv.slice(2) as [string, string | undefined]
const agentId = 'bench'
/** An agent of the default tier. */
const limitedId = 'limited'
const here = ['vector-gateway', 'outbox-publisher']
const source = createPointSource(1)
const handlers = { open, write }
export type SearchPgCalls = typeof handlers

let running: RunningPlatform | undefined
serveForked(handlers, async () => running?.close())

/** As a gateway runs on a machine of its own: the bench fills the tables, and audit records wait in the log. */
async function open(_: null): Promise<{ vectorUrl: string; agents: BenchAgent[] }> {
  running = await startPlatform({
    migrations: migrationFolders,
    services: services.filter(({ name }) => here.includes(name)),
    chosen: [],
    env: {
      FLOTILLA_HOME: home,
      ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
      VECTOR_GATEWAY_PORT: '0',
      MAIN_API_PORT: '0',
      HUB_PORT: '0',
      RUN_GATEWAY_PORT: '0',
      WEBHOOK_GATEWAY: '127.0.0.1:0',
      HOST: '127.0.0.1',
    },
    log: pino({ level: process.env.BENCH_LOG ?? 'error' }, pino.destination(2)),
    print: () => {},
    control: () => async () => {},
  })
  const agents = [
    await provisioned({ agentId, tier: 'infra-architect' }),
    await provisioned({ agentId: limitedId, tier: 'agent' }),
  ]
  return { vectorUrl: running.addresses.vector_url!, agents }
}

interface BenchAgent {
  agentId: string
  privateKeyPem: string
}

async function provisioned(agent: NewAgent): Promise<BenchAgent> {
  const { relational } = running!.platform.engines
  const { privateKeyPem, outboxId } = await provisionAgent(relational, agent)
  await waitUntilPublished(relational, outboxId)
  return { agentId: agent.agentId, privateKeyPem }
}

/** Puts so many points into the mirror, as its writer does; of `longTitles` one in ten has a very long title. */
async function write(given: { from: number; count: number; longTitles: boolean }): Promise<number> {
  const { mirror } = running!.platform.engines
  const generation = await mirror.adoptGeneration(1)
  const operations = Array.from({ length: given.count }, (_, i) => {
    const { id, vector, payload } = source.point(`point-${given.from + i}`)
    const title = given.longTitles && i % 10 === 0 ? 'a'.repeat(60_000) : `Point ${given.from + i}`
    const row = {
      title,
      status: 'active',
      tags: ['bench'],
      mindPath: `bench/${i}.md`,
      updatedAt: null,
      expiresAt: null,
      payload,
    }
    const embedding = Float32Array.from(vector)
    return {
      partition: 0,
      offset: given.from + i,
      collection: 'knowledgebase',
      id,
      row: { ...row, embedding },
    }
  })
  const begun = performance.now()
  await mirror.apply({ generation, epoch: 1 }, operations, [])
  return performance.now() - begun
}
