/** Asks engines whether they answer, and how fast; where one does not, why, and what to do. */

import pino from 'pino'
import { type EngineChoice, engineSettings, openEngines } from '#engines/open.ts'
import { missingMigrations } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { tlsFault } from '#lib/tls.ts'
import { schemasDirectory } from '#runtime/publish/codec.ts'
import { missingTopics } from '#runtime/publish/topics.ts'
import type { EngineName, Engines } from '#runtime/start/service.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'

const pingTimeoutMs = 5_000

/** Asks each engine that is open whether it answers. */
export function pingEngines(
  engines: Partial<Engines>,
  choices: Record<EngineName, EngineChoice>,
): Promise<Check[]> {
  const { eventLog, schemaRegistry, vectors, relational, mirror, embedder } = engines
  const asks: [string, EngineName, (() => Promise<unknown>) | undefined][] = [
    ['event log', 'eventLog', eventLog && (() => eventLog.ping(pingTimeoutMs))],
    ['schema registry', 'schemaRegistry', schemaRegistry && (() => schemaRegistry.ping(pingTimeoutMs))],
    ['vector engine', 'vectors', vectors && (() => vectors.ping(pingTimeoutMs))],
    ['relational engine', 'relational', relational && (() => relational.ping(pingTimeoutMs))],
    ['relational mirror', 'mirror', mirror && (() => mirror.ping(pingTimeoutMs))],
    ['embedder', 'embedder', embedder && (() => embedder.ping(pingTimeoutMs))],
  ]
  return Promise.all(
    asks.flatMap(([check, engine, ask]) =>
      ask ? [ping(check, { engine, variable: choices[engine].variable }, ask)] : [],
    ),
  )
}

async function ping(
  check: string,
  of: { engine: EngineName; variable: string },
  ask: () => Promise<unknown>,
): Promise<Check> {
  const startedAt = performance.now()
  try {
    await withTimeout(ask(), pingTimeoutMs + 1_000, () => new AppError('overloaded', 'no answer in time'))
    return { check, status: 'ok', found: `answers in ${Math.round(performance.now() - startedAt)} ms` }
  } catch (error) {
    return engineAway(check, of, error)
  }
}

/**
 * Distributed engines can be reached from here. Returns what is wrong with them, or what the next start makes;
 * `isComplete` when that is nothing.
 */
export async function askDistributed(
  env: Environment,
  migrations: readonly string[],
): Promise<{ faults: Check[]; isComplete: boolean }> {
  const choices = choicesOf(env)
  const asked: EngineName[] = ['eventLog', 'schemaRegistry', 'vectors', 'relational', 'mirror', 'embedder']
  const opened = await openEngines({
    settings: loadConfig(engineSettings, env),
    needs: asked.filter((engine) => !choices[engine].embedded),
    directory: homeOf(env),
    schemasDirectory,
    clientId: 'flotilla-doctor',
    log: pino({ level: 'silent' }),
  })
  try {
    const pings = await pingEngines(opened.engines, choices)
    const isAway = pings.some(({ status }) => status === 'fail')
    const { relational } = opened.engines
    if (isAway || !relational) return { faults: pings, isComplete: false }
    const faults = await checkTables(relational, migrations)
    // Whoever looks at a complete platform pings its engines once more.
    return faults.length > 0
      ? { faults: [...pings, ...faults], isComplete: false }
      : { faults: [], isComplete: true }
  } finally {
    await opened.close()
  }
}

/** What a start would bring up to date in the database first. */
async function checkTables(relational: Relational, migrations: readonly string[]): Promise<Check[]> {
  const check = 'database'
  try {
    const pending = await missingMigrations(relational, migrations)
    const missing = pending.length > 0 ? pending : await missingTopics(relational)
    if (missing.length === 0) return []
    return [{ check, status: 'ok', found: `the next start makes what is missing: ${missing.join(', ')}` }]
  } catch (error) {
    return [failedCheck(check, error, 'Correct what it names: the platform does not start.')]
  }
}

export interface Check {
  check: string
  status: 'ok' | 'warn' | 'fail'
  found: string
  /** What to do; absent when all is well. */
  advice?: string
}

export function failedCheck(check: string, error: unknown, advice: string): Check {
  // Without the name of the class where the message is meant for operators.
  const found = error instanceof AppError ? error.message : describeError(error)
  return { check, status: 'fail', found, advice }
}

const depthMax = 6

/** What holds the user, the password or the key. */
const credentials: Record<EngineName, string> = {
  eventLog: 'KAFKA_SASL_MECHANISM, KAFKA_USERNAME and KAFKA_PASSWORD',
  schemaRegistry: 'the user and the password in SCHEMA_REGISTRY_URL',
  vectors: 'QDRANT_API_KEY',
  relational: 'the user and the password in DATABASE_URL',
  mirror: 'the user and the password in DATABASE_URL',
  embedder: 'EMBEDDINGS_API_KEY',
  localEmbedder: 'EMBEDDINGS_API_KEY',
  identity: 'GOOGLE_APPLICATION_CREDENTIALS',
}

/** What holds the client certificate. */
const certificates: Partial<Record<EngineName, string>> = {
  eventLog: 'KAFKA_SSL_CERTIFICATE_LOCATION and KAFKA_SSL_KEY_LOCATION',
  schemaRegistry: 'SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION and SCHEMA_REGISTRY_SSL_KEY_LOCATION',
  relational: 'sslcert and sslkey of DATABASE_URL',
  mirror: 'sslcert and sslkey of DATABASE_URL',
}

/** Postgres (SQLSTATE), the client of Kafka. */
const refusals = new Set<unknown>(['28P01', '28000', 'PLT_KFK_AUTHENTICATION'])
/** The client of Kafka: the connection came to be and was closed, as brokers do with who speaks plainly where TLS or SASL is due. */
const closedByBroker = 'PLT_KFK_NETWORK'

const waits = 'what waits for it goes on by itself'

interface Reason {
  found: string
  advice: string
}

export function engineAway(
  check: string,
  of: { engine: EngineName; variable: string },
  error: unknown,
): Check {
  const { engine } = of
  const variable = (error instanceof AppError ? error.setting : undefined) ?? of.variable
  const fault = tlsFault(error, certificates[engine] ?? null)
  if (fault) return { check, status: 'fail', ...fault }
  for (const cause of causesOf(error)) {
    const reason = reasonOf(cause, engine, variable)
    if (reason) return { check, status: 'fail', ...reason }
  }
  return failedCheck(check, error, `Start it, or correct ${variable}; ${waits}.`)
}

/** The causes, the deepest first: it says most. */
function causesOf(error: unknown, depth = 0): unknown[] {
  if (!(error instanceof Error) || depth === depthMax) return []
  const { errors } = error as { errors?: unknown }
  const inner = [error.cause, ...(Array.isArray(errors) ? errors : [])]
  return [...inner.flatMap((one) => causesOf(one, depth + 1)), error]
}

function reasonOf(cause: unknown, engine: EngineName, variable: string): Reason | null {
  const { code, status, name } = cause as { code?: unknown; status?: unknown; name?: string }
  const refused = status === 401 || status === 403 || refusals.has(code)
  if (refused || name === 'AuthenticationError') {
    return {
      found: 'It refuses the user, the password or the key.',
      advice: `Correct ${credentials[engine]}.`,
    }
  }
  if (code === '3D000') {
    const advice = `Create the database that ${variable} names, or correct its name.`
    return { found: 'The server has no such database.', advice }
  }
  if (typeof status === 'number') {
    const advice = `Correct ${variable}: perhaps another server has this address.`
    return { found: `It answers with status ${status}.`, advice }
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return { found: `Its host has no address (${code}).`, advice: `Correct the host in ${variable}.` }
  }
  if (code === 'ECONNREFUSED') {
    return { found: `Nobody listens there (${code}).`, advice: `Start it, or correct ${variable}; ${waits}.` }
  }
  if (code === closedByBroker) {
    const advice = `Correct ${variable}, KAFKA_SSL and KAFKA_SASL_MECHANISM: it may ask for TLS or a password.`
    return { found: 'The broker closes the connection.', advice }
  }
  // A fault that is not about being away names its remedy.
  const isNamed =
    cause instanceof AppError && !cause.code.endsWith('unavailable') && cause.code !== 'overloaded'
  return isNamed ? { found: cause.message, advice: `Correct ${variable} and what belongs to it.` } : null
}
