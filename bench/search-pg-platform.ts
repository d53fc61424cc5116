/** The gateway under measurement, in a process of its own: its relational engine is the PostgreSQL that is named. */

import { pino } from 'pino'
import { type RunningPlatform, startPlatform } from '#runtime/start.ts'
import { provisionAgent, waitUntilPublished } from '#services/identity/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { serveForked } from './forked.ts'

const [home, databaseUrl] = process.argv.slice(2) as [string, string]
const agentId = 'bench'
const here = ['vector-gateway', 'outbox-publisher']
const handlers = { open }
export type SearchPgCalls = typeof handlers

let running: RunningPlatform | undefined
serveForked(handlers, async () => running?.close())

/** As a gateway runs on a machine of its own: the bench fills the tables, and audit records wait in the log. */
async function open(_: null): Promise<{ vectorUrl: string; agentId: string; privateKeyPem: string }> {
  running = await startPlatform({
    migrations: migrationFolders,
    services: services.filter(({ name }) => here.includes(name)),
    chosen: [],
    env: {
      FLOTILLA_HOME: home,
      DATABASE_URL: databaseUrl,
      VECTOR_GATEWAY_PORT: '0',
      WEBHOOK_GATEWAY: '127.0.0.1:0',
      HOST: '127.0.0.1',
    },
    log: pino({ level: process.env.BENCH_LOG ?? 'error' }, pino.destination(2)),
    print: () => {},
    control: () => async () => {},
  })
  const { relational } = running.platform.engines
  const { privateKeyPem, outboxId } = await provisionAgent(relational, { agentId, tier: 'infra-architect' })
  await waitUntilPublished(relational, outboxId)
  return { vectorUrl: running.addresses.vector_url!, agentId, privateKeyPem }
}
