/** Starts the same servers as containers, for machines that have a container engine but no Java, Maven or Python. */

import { GenericContainer, getContainerRuntimeClient, Wait } from 'testcontainers'
import { freePort } from './children.ts'
import type { RunningServer } from './registry.ts'

export async function hasContainerEngine(): Promise<boolean> {
  try {
    await getContainerRuntimeClient()
    return true
  } catch {
    return false
  }
}

/** One broker. Its address is part of its configuration, so the host's port is chosen first. */
export async function openKafkaContainer(): Promise<RunningServer> {
  const port = await freePort()
  const container = await new GenericContainer('apache/kafka:4.1.0')
    .withExposedPorts({ container: port, host: port })
    .withEnvironment({
      KAFKA_NODE_ID: '1',
      KAFKA_PROCESS_ROLES: 'broker,controller',
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@127.0.0.1:9093',
      KAFKA_LISTENERS: `PLAINTEXT://0.0.0.0:${port},CONTROLLER://127.0.0.1:9093`,
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${port}`,
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
      KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS: '1000',
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
      KAFKA_LOG_CLEANER_BACKOFF_MS: '500',
      KAFKA_LOG_RETENTION_CHECK_INTERVAL_MS: '1000',
    })
    .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
    .start()
  return { url: `127.0.0.1:${port}`, close: async () => void (await container.stop()) }
}

export async function openRegistryContainer(): Promise<RunningServer> {
  const container = await new GenericContainer('apicurio/apicurio-registry:3.0.9')
    .withExposedPorts(8080)
    .withWaitStrategy(Wait.forHttp('/apis/ccompat/v7/subjects', 8080))
    .start()
  const url = `http://${container.getHost()}:${container.getMappedPort(8080)}/apis/ccompat/v7`
  return { url, close: async () => void (await container.stop()) }
}

export async function openPostgresContainer(): Promise<RunningServer> {
  const container = await new GenericContainer('pgvector/pgvector:pg16')
    .withExposedPorts(5432)
    .withEnvironment({ POSTGRES_HOST_AUTH_METHOD: 'trust' })
    .withWaitStrategy(Wait.forLogMessage(/ready to accept connections/, 2))
    .start()
  const url = `postgres://postgres@${container.getHost()}:${container.getMappedPort(5432)}/postgres`
  return { url, close: async () => void (await container.stop()) }
}
