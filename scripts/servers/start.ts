/** Starts Kafka, the schema registry, Postgres and (where it is on the PATH) Qdrant for a developer, until Ctrl-C. */

import { openKafkaCluster } from './kafka.ts'
import { createServers } from './open-servers.ts'

const three = process.argv.includes('--three-brokers')
const servers = createServers(process.env)
const cluster = three ? await openKafkaCluster(3) : undefined
const brokers = cluster ? cluster.brokers.join(',') : await servers.address('kafka')
const [registry, postgres, qdrant] = await Promise.all([
  servers.address('registry'),
  servers.address('postgres'),
  servers.address('qdrant'),
])
console.log(`export KAFKA_BROKERS=${brokers}`)
console.log(`export SCHEMA_REGISTRY_URL=${registry}`)
console.log(`export DATABASE_URL=${postgres}`)
console.log(qdrant === null ? '# no qdrant executable on the PATH' : `export QDRANT_URL=${qdrant}`)

const alive = setInterval(() => {}, 60_000)
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    clearInterval(alive)
    await cluster?.close()
    await servers.close()
    process.exit(0)
  })
}
