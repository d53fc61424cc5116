/** The process under pressure: all services embedded, with callers of every role. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { startPlatform } from '#runtime/start/start.ts'
import { issueAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { provisionAgent } from '#services/access/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { serveForked } from '../forked.ts'

const home = process.argv[2]!
const running = await startPlatform({
  migrations: migrationFolders,
  services: services.filter(({ name }) => name !== 'reference-nodes' && name !== 'relational-writer'),
  chosen: [],
  env: {
    FLOTILLA_HOME: home,
    VECTOR_GATEWAY_PORT: '0',
    MAIN_API_PORT: '0',
    HUB_PORT: '0',
    RUN_GATEWAY_PORT: '0',
    WEBHOOK_GATEWAY: '127.0.0.1:0',
    HOST: '127.0.0.1',
    RUN_NODES_FILE: process.argv[3]!,
  },
  log: pino({ level: process.env.BENCH_LOG ?? 'fatal' }, pino.destination(2)),
  print: () => {},
  control: () => async () => {},
})
const { relational } = running.platform.engines

interface NewCaller {
  agentId: string
  access: 'member' | 'viewer'
}

const handlers = {
  addresses: () => ({ ...running.addresses }),
  /** The file of its private key, and an agent key that the main API trades. */
  async caller({ agentId, access }: NewCaller) {
    const { privateKeyPem } = await provisionAgent(relational, { agentId, access })
    const privateKeyFile = join(home, `${agentId}.pem`)
    writeFileSync(privateKeyFile, privateKeyPem, { mode: 0o600 })
    return { privateKeyFile, agentKey: (await issueAgentKey(relational, { agentId })).key }
  },
}
export type PlatformHandlers = typeof handlers
serveForked(handlers, () => running.close())
