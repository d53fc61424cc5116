/** The whole platform on embedded engines in this process, for the flow tests of the vector gateway. */

import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { inject } from 'vitest'
import { type Client, type ClientOptions, createClient } from '#client/client.ts'
import { createControlHandler } from '#operations/control-handler.ts'
import { operations } from '#operations/list.ts'
import type { Platform } from '#runtime/start/platform.ts'
import type { Service } from '#runtime/start/service.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { type NewAgent, provisionAgent } from '#services/access/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { anyPorts } from './any-ports.ts'

export interface GatewayPlatform {
  vectorUrl: string
  /** Addresses of every interface, by the names of addresses.json. */
  addresses: Readonly<Record<string, string>>
  platform: Platform
  /** Everything that was logged. */
  lines: string[]
  /** Without limits unless a tier is named: a fast machine runs into those of a test that asks often. */
  provision(agent: NewAgent): Promise<{ uid: string; privateKeyPem: string }>
  /** Provisions the agent and gives its client. */
  clientOf(agentId: string, options?: Partial<ClientOptions>): Promise<Client>
  close(): Promise<void>
}

export interface RunningServices {
  mirror?: boolean
  agents?: boolean
  /** Handlers in place of each service: for tests that look at its work. */
  as?(service: Service): Service
}

/** As `openGatewayPlatform` runs them. */
export function servicesOf({ mirror = false, agents = false }: { mirror?: boolean; agents?: boolean } = {}) {
  return services.filter(
    ({ name }) => (mirror || name !== 'relational-writer') && (agents || name !== 'reference-nodes'),
  )
}

/**
 * `mirror` runs the relational-writer, too: it opens a second database, for which most tests need not wait. `agents` runs
 * the reference nodes, too, which provision six agents.
 */
export async function openGatewayPlatform(
  env: Record<string, string> = {},
  { as = (service) => service, ...runs }: RunningServices = {},
): Promise<GatewayPlatform> {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  // One that was started before, on the same engines and with the same key: a first start takes twice the time.
  if (isEmbedded(env)) cpSync(inject('platformTemplate'), home, { recursive: true })
  const lines: string[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => lines.push(line) })
  const running = await startPlatform({
    migrations: migrationFolders,
    services: servicesOf(runs).map(as),
    chosen: [],
    env: {
      FLOTILLA_HOME: home,
      ...anyPorts,
      ...env,
    },
    log,
    print() {},
    control: createControlHandler(operations),
  }).catch((error: unknown) => {
    rmSync(home, { recursive: true, force: true })
    throw error
  })
  const vectorUrl = running.addresses.vector_url as string
  async function provision(agent: NewAgent) {
    const { agent: made, privateKeyPem } = await provisionAgent(running.platform.engines.relational, {
      tier: 'infra-architect',
      ...agent,
    })
    return { uid: made.uid, privateKeyPem }
  }
  return {
    vectorUrl,
    addresses: running.addresses as Record<string, string>,
    platform: running.platform,
    lines,
    provision,
    async clientOf(agentId, options = {}) {
      const { privateKeyPem } = await provision({ agentId })
      return createClient({ vectorUrl, agentId, privateKeyPem, ...options })
    },
    async close() {
      await running.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** Nothing of it lies elsewhere. */
function isEmbedded(env: Record<string, string>): boolean {
  const elsewhere = [
    'KAFKA_BROKERS',
    'SCHEMA_REGISTRY_URL',
    'DATABASE_URL',
    'QDRANT_URL',
    'FIREBASE_PROJECT_ID',
    'FLOTILLA_SECRET_KEY',
  ]
  return !elsewhere.some((name) => name in env)
}
