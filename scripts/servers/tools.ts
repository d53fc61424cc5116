/** Tools of others that suites call, by name. `npm run servers:install` fetches all of them, and the servers, before the suites ask. */

import { join } from 'node:path'
import {
  installAsyncApiParser,
  installFirebaseTools,
  installHelm,
  installKafka,
  installOpenapiTools,
  installPostgres,
  installPythonPackage,
  installRegistry,
  installRegistrySerde,
} from './install.ts'
import { installPythonClientTools } from './python.ts'
import { installRuntimes } from './runtimes.ts'

/** Google's Agent Development Kit, as a folder for PYTHONPATH. */
export function installAdk(): Promise<string> {
  return installPythonPackage('google-adk', '2.13.0', join('google', 'adk', 'cli', '__main__.py'))
}

/** Confluent's client of Kafka with what it needs for Avro. */
export function installConfluentKafka(): Promise<string> {
  return installPythonPackage('confluent-kafka', '2.15.0', undefined, '[avro,schemaregistry]')
}

/** OpenAI's own client, which takes vectors from the gateway. */
export function installOpenai(): Promise<string> {
  return installPythonPackage('openai', '3.57.0')
}

/** A generator of clients in Python from OpenAPI. */
export function installOpenapiPythonClient(): Promise<string> {
  return installPythonPackage('openapi-python-client', '0.29.1')
}

/** Everything that takes long to fetch, by the order in which suites ask for it. */
export const tools: Record<string, () => Promise<unknown>> = {
  kafka: installKafka,
  registry: installRegistry,
  postgres: installPostgres,
  'firebase-tools': installFirebaseTools,
  'google-adk': installAdk,
  'openapi-tools': installOpenapiTools,
  'openapi-python-client': installOpenapiPythonClient,
  'confluent-kafka': installConfluentKafka,
  'registry-serde': installRegistrySerde,
  openai: installOpenai,
  'python-client': installPythonClientTools,
  'asyncapi-parser': installAsyncApiParser,
  runtimes: installRuntimes,
  helm: installHelm,
}
