/**
 * Prints what each service takes of memory in a process of its own on servers, idle, with the settings that it starts with:
 * `npx node scripts/service-memory.ts`, the table of docs/sizing.md.
 */

import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { services } from '#services/index.ts'
import { createProcesses } from '../test/support/distributed-process.ts'
import { openFakeQdrant } from '../test/support/qdrant-fake.ts'
import { newSecretKeyVariable } from '../test/support/secret-key.ts'
import { openKafkaCluster } from './servers/kafka.ts'
import { openPostgres } from './servers/postgres.ts'
import { openRegistry } from './servers/registry.ts'

/** By then V8 has given the memory of the start back to the system. */
const idleMs = 20_000

const [kafka, registry, postgres, vectors] = await Promise.all([
  openKafkaCluster(1),
  openRegistry(),
  openPostgres(),
  openFakeQdrant(),
])
const { MALLOC_ARENA_MAX, MALLOC_TRIM_THRESHOLD_, NODE_OPTIONS } = JSON.parse(
  readFileSync(new URL('../bin/start-environment.json', import.meta.url), 'utf8'),
) as Record<string, string>
const processes = createProcesses({
  KAFKA_BROKERS: kafka.brokers.join(','),
  SCHEMA_REGISTRY_URL: registry.url,
  DATABASE_URL: postgres.url,
  QDRANT_URL: vectors.url,
  LOG_LEVEL: 'warn',
  MALLOC_ARENA_MAX: MALLOC_ARENA_MAX!,
  MALLOC_TRIM_THRESHOLD_: MALLOC_TRIM_THRESHOLD_!,
  NODE_OPTIONS: NODE_OPTIONS!,
  ...newSecretKeyVariable(),
})
try {
  console.log('| service | MB |\n|---|---|')
  for (const { name } of services.filter((one) => one.name !== 'reference-nodes')) {
    const one = await processes.start([name])
    await sleep(idleMs)
    const [, kilobytes] =
      /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${one.child.pid}/status`, 'utf8')) ?? []
    console.log(`| ${name} | ${Math.round(Number(kilobytes) / 1_000)} |`)
    one.child.kill('SIGTERM')
    await one.finished
  }
} finally {
  await processes.close()
  await Promise.all([kafka.close(), registry.close(), postgres.close(), vectors.close()])
}
process.exit(0)
