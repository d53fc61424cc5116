/** Opens what every service and command works with: engines, an up-to-date database and topics, publisher and codec. */

import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Embedder } from '#engines/embedder/port.ts'
import {
  type EngineChoice,
  type EngineSettings,
  engineSettings,
  enginesOverTls,
  openEngines,
} from '#engines/open.ts'
import { migrate } from '#engines/relational/migrate.ts'
import { withTimeout } from '#lib/backoff.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { openDataDirectory } from '#lib/data-directory.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError, isUnavailable } from '#lib/errors.ts'
import { type Closeable, createScope, type Scope } from '#lib/resource.ts'
import { probeTls, type TlsEngine, tlsFault } from '#lib/tls.ts'
import { createMetrics, exposeDisk, exposeEngines } from '../observe/metrics.ts'
import { openTracing } from '../observe/tracing/open-tracing.ts'
import { tracedEngines } from '../observe/tracing/traced-engines.ts'
import { tracedPublisher } from '../observe/tracing/traced-publisher.ts'
import { noTracing } from '../observe/tracing/tracing.ts'
import { createCodec, schemasDirectory } from '../publish/codec.ts'
import { createPublisher } from '../publish/publisher.ts'
import { ensureTopics } from '../publish/topics.ts'
import { untilThere } from '../repeat.ts'
import type { EngineName, Engines, ServiceHost } from './service.ts'
import { choicesOf, homeOf } from './settings.ts'

/** What every service and command needs, whatever it does. */
export const commonNeeds = ['eventLog', 'schemaRegistry', 'relational'] as const satisfies EngineName[]
/** An endpoint that is away delays the start by no more. */
const embedderPingMs = 5_000

export interface Platform extends ServiceHost, Closeable {
  home: string
  choices: Record<EngineName, EngineChoice>
}

interface OpenPlatformOptions {
  env: Environment
  needs: Iterable<EngineName>
  /** Folders of the migrations of all areas. */
  migrations: readonly string[]
  /** Goes into the records' `producer` header. */
  producerName: string
  log: Logger
  /** False where nothing of the data directory is touched, so that several processes may share it. */
  lock: boolean
  /** True where requests and records are handled: then tracing is opened if the environment asks for it. */
  traced?: boolean
  /** Called when the engines have begun to open: what needs none of them may be done meanwhile. */
  whileOpening?(): void
  /** Ends the waiting for engines that are away. */
  signal?: AbortSignal
}

/**
 * Opens the engines, brings database and topics up to date, and builds publisher and codec. Waits while engines are
 * away. Closes what it opened when it fails; throws AppError `data_directory_in_use`, `invalid_configuration`,
 * `topic_mismatch`, or the error of the last try when the signal ended the waiting.
 */
export async function openPlatform(options: OpenPlatformOptions): Promise<Platform> {
  const { log } = options
  const scope = createScope((name, error) =>
    log.error({ part: name, reason: describeError(error) }, 'service.close-failed'),
  )
  try {
    return await openInto(scope, options)
  } catch (error) {
    await scope.close()
    throw error
  }
}

async function openInto(scope: Scope, options: OpenPlatformOptions): Promise<Platform> {
  const { env, log, signal } = options
  const home = homeOf(env)
  const choices = choicesOf(env)
  const instanceId = randomBytes(6).toString('hex')
  if (options.lock) scope.add('data directory', await openDataDirectory(home))
  const settings = loadConfig(engineSettings, env)
  const metrics = createMetrics()
  const tracing = options.traced
    ? await openTracing({ env, log, metrics, instanceId, serviceName: options.producerName })
    : noTracing
  // Closed behind the engines: nothing that they wait for may be held up by it.
  scope.add('tracing', tracing)
  const opening = openEngines({
    settings,
    needs: [...commonNeeds, ...options.needs],
    directory: home,
    schemasDirectory,
    clientId: `flotilla-${options.producerName}-${instanceId}`,
    log,
  })
  // In this turn the engines' threads begin.
  setImmediate(() => options.whileOpening?.())
  const opened = await opening
  scope.add('engines', opened)
  const engines = (tracing.isOn ? tracedEngines(opened.engines, tracing) : opened.engines) as Engines
  await refuseUntrusted(opened.engines, settings)
  await refuseUnfitEmbedder(opened.engines.embedder, log)
  await untilThere({ what: 'migrations', log, signal }, () =>
    migrate(engines.relational, log, options.migrations),
  )
  const locations = await ensureTopics({
    eventLog: engines.eventLog,
    relational: engines.relational,
    log,
    ...(signal ? { signal } : {}),
  })
  const codec = createCodec(engines.schemaRegistry)
  const publisher = createPublisher({
    eventLog: engines.eventLog,
    codec,
    locations,
    producerName: options.producerName,
  })
  exposeDisk(metrics, home)
  exposeEngines(metrics, opened.engines)
  return {
    home,
    env,
    choices,
    engines,
    locations,
    publisher: tracing.isOn ? tracedPublisher(publisher, tracing, engines.eventLog.driver) : publisher,
    codec,
    log,
    metrics,
    instanceId,
    tracing,
    shared: createShared(),
    close: () => scope.close(),
  }
}

function createShared(): ServiceHost['shared'] {
  const made = new Map<() => unknown, unknown>()
  return <T>(make: () => T): T => {
    if (!made.has(make)) made.set(make, make())
    return made.get(make) as T
  }
}

/** One that is away may come back. One whose vectors do not fit never will, and stops the start. */
async function refuseUnfitEmbedder(embedder: Embedder | undefined, log: Logger): Promise<void> {
  try {
    await embedder?.ping(embedderPingMs)
  } catch (error) {
    if (!isUnavailable(error)) throw error
    log.warn({ reason: describeError(error) }, 'start.embedder-away')
  }
}

/** A refusal comes at once behind the handshake. */
const probeMs = 1_000

/**
 * Stops the start where TLS to an engine can never work as it is set up; an engine that is away is waited for, as always. Asks
 * each open engine that is reached over TLS once. Throws AppError `invalid_configuration`, which names all faults.
 */
async function refuseUntrusted(engines: Partial<Engines>, settings: EngineSettings): Promise<void> {
  const faults = await Promise.all(
    enginesOverTls(settings).map(async (tls) => {
      const engine = engines[tls.engine]
      const fault = engine ? await faultOf(engine, tls) : null
      return fault ? [`TLS to the engine of ${tls.variable} fails. ${fault.found} ${fault.advice}`] : []
    }),
  )
  if (faults.flat().length > 0) throw new AppError('invalid_configuration', faults.flat().join('\n'))
}

async function faultOf(
  engine: { ping(timeoutMs?: number): Promise<unknown> },
  { variable, certificateSettings, address }: TlsEngine,
) {
  const { pingMs } = deadlines.engine
  try {
    await withTimeout(engine.ping(pingMs), pingMs, () => new Error('no answer in time'))
    return null
  } catch (error) {
    // An engine with two addresses says which of them it cannot reach.
    if (error instanceof AppError && (error.setting ?? variable) !== variable) return null
    const fault = tlsFault(error, certificateSettings)
    if (fault || !address) return fault
    return tlsFault(await probeTls(address, probeMs), certificateSettings)
  }
}
