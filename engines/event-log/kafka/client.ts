/**
 * Creates kafkajs clients from the connection settings, with our logger and no retries (the driver repeats by
 * itself).
 *
 * kafkajs sets a timer with a negative time, again whenever it fires, as long as a connection is open. Node prints a
 * TimeoutNegativeWarning once a process (`node --disable-warning=TimeoutNegativeWarning` hides it) and wakes up every
 * millisecond, so connections are closed while there are no calls (admin.ts).
 */

import kafkajs, { type Kafka, type LogEntry } from 'kafkajs'
import type { Logger } from 'pino'
import type { ClientCertificate } from '#lib/client-certificate.ts'
import { deadlines } from '#lib/deadlines.ts'

export interface KafkaOptions {
  /** `host:port` of some brokers; the others are learned from them. */
  brokers: string[]
  clientId: string
  /** TLS, with a client certificate where there is one. */
  ssl?: Partial<ClientCertificate>
  sasl?: { mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'; username: string; password: string }
  /** Of topics that are created here. Default: as many as there are brokers, at most 3. */
  replicationFactor?: number
  log: Logger
}

const connectionTimeoutMs = deadlines.engine.logConnectMs

/** Without loops of kafkajs's own inside one call: what is above them loops with its own deadline. */
export function createClient(options: KafkaOptions): Kafka {
  return new kafkajs.Kafka({
    // A client would always begin with the first of the list, also when that one is down and the client is a new one.
    brokers: async () => [options.brokers[Math.floor(Math.random() * options.brokers.length)] as string],
    clientId: options.clientId,
    ...(options.ssl ? { ssl: options.ssl } : {}),
    ...(options.sasl ? { sasl: options.sasl as kafkajs.SASLOptions } : {}),
    connectionTimeout: connectionTimeoutMs,
    requestTimeout: deadlines.engine.logAdminMs,
    retry: { retries: 0, initialRetryTime: 100, maxRetryTime: 1_000 },
    logLevel: options.log.isLevelEnabled('trace') ? kafkajs.logLevel.DEBUG : kafkajs.logLevel.INFO,
    logCreator: () => (entry) => writeLog(options.log, entry),
  })
}

/**
 * One level below kafkajs's own: what it calls an error is mostly one failed try of a loop that goes on. Of the
 * details only short, known fields are kept: others may hold whole requests.
 */
function writeLog(log: Logger, { level, namespace, log: entry }: LogEntry): void {
  const details: Record<string, unknown> = { kafka: namespace }
  for (const name of [
    'broker',
    'clientId',
    'groupId',
    'memberId',
    'error',
    'retryCount',
    'topic',
    'partition',
  ]) {
    const value = entry[name]
    if (typeof value === 'number') details[name] = value
    else if (value !== undefined) details[name] = String(value).slice(0, 200)
  }
  const message = entry.message.slice(0, 300)
  if (level === kafkajs.logLevel.ERROR) log.warn(details, message)
  else if (level === kafkajs.logLevel.WARN) log.info(details, message)
  else if (level === kafkajs.logLevel.INFO) log.debug(details, message)
  else log.trace(details, message)
}
