/** One stack of servers for the suites of a file, one after the other: each finds it whole and empty. */

import { afterAll, beforeAll, beforeEach } from 'vitest'
import { type Gate, openGate } from './distributed-gate.ts'
import { type DistributedServers, openDistributedServers } from './distributed-servers.ts'

export interface AwayStack {
  readonly servers: DistributedServers
  /** kill -9 of a broker. */
  killKafka(node?: number): Promise<void>
  startKafka(node?: number): Promise<void>
  killQdrant(): Promise<void>
  startQdrant(): Promise<void>
  /** Empty engines with an unused database; Postgres and the registry are reached through gates. */
  newEnvironment(): Promise<GatedEnvironment>
}

export interface GatedEnvironment {
  env: Record<string, string>
  postgres: Gate
  registry: Gate
}

/** Call it in a file, outside of its suites. What a test left away is back before the next one, or its second try, begins. */
export function openAwayStack(brokers: 1 | 3 = 1): AwayStack {
  let servers: DistributedServers
  const nodesAway = new Set<number>()
  let qdrantAway = false
  const gates: Gate[] = []
  const stack: AwayStack = {
    get servers() {
      return servers
    },
    async killKafka(node = 1) {
      nodesAway.add(node)
      await servers.kafka.kill9(node)
    },
    async startKafka(node = 1) {
      if (!nodesAway.has(node)) return
      await servers.kafka.start(node)
      nodesAway.delete(node)
    },
    async killQdrant() {
      qdrantAway = true
      await servers.qdrant?.kill9()
    },
    async startQdrant() {
      if (!qdrantAway) return
      await servers.qdrant?.start()
      qdrantAway = false
    },
    async newEnvironment() {
      await heal()
      for (const gate of gates.splice(0)) gate.cut()
      await servers.clear()
      const env = await servers.newEnvironment()
      const postgres = await openGate(env.DATABASE_URL as string)
      const registry = await openGate(env.SCHEMA_REGISTRY_URL as string)
      gates.push(postgres, registry)
      return {
        env: { ...env, DATABASE_URL: postgres.url, SCHEMA_REGISTRY_URL: registry.url },
        postgres,
        registry,
      }
    },
  }
  async function heal(): Promise<void> {
    const brokersStart = [...nodesAway].map((node) => stack.startKafka(node))
    await Promise.all([...brokersStart, stack.startQdrant(), ...gates.map((gate) => gate.mend())])
  }
  beforeAll(async () => {
    servers = await openDistributedServers(brokers)
  })
  beforeEach(heal)
  afterAll(async () => {
    for (const gate of gates) gate.cut()
    await servers?.close()
  })
  return stack
}
