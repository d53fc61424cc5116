/** A whole platform in this process on the engines that its environment names, with an agent and its client. */

import pino from 'pino'
import { createClient } from '#client/client.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { type NewAgent, provisionAgent } from '#services/access/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { anyPorts } from './any-ports.ts'

/** `mirror` runs the relational-writer, too. */
export async function startedPlatform(
  env: Record<string, string>,
  { mirror, agent = {} }: { mirror: boolean; agent?: Partial<NewAgent> },
) {
  const running = await startPlatform({
    migrations: migrationFolders,
    services: services.filter((service) => mirror || service.name !== 'relational-writer'),
    chosen: [],
    env: {
      ...anyPorts,
      ...env,
    },
    log: pino({ level: 'silent' }),
    print() {},
    control: () => async () => null,
  })
  const { platform } = running
  const agentId = `agent-${platform.instanceId}`
  const vectorUrl = running.addresses.vector_url as string
  const { privateKeyPem } = await provisionAgent(platform.engines.relational, {
    agentId,
    tier: 'infra-architect',
    ...agent,
  })
  const client = createClient({ vectorUrl, agentId, privateKeyPem })
  return {
    platform,
    vectorUrl,
    client,
    async close() {
      await client.close()
      await running.close()
    },
  }
}
