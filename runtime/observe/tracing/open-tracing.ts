/** Opens tracing where the environment asks for it. */

import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Environment } from '#lib/config.ts'
import { tracingOptionsOf } from './settings.ts'
import { noTracing, type Tracing } from './tracing.ts'

interface TracingParts {
  env: Environment
  /** The services of this process, as in the `producer` header of records. */
  serviceName: string
  instanceId: string
  log: Logger
  metrics: Registry
}

/** Where tracing is off nothing of the SDK is loaded. Throws AppError `invalid_configuration`. */
export async function openTracing({ env, log, ...parts }: TracingParts): Promise<Tracing> {
  const options = tracingOptionsOf(env)
  if (!options) return noTracing
  const { openSdk } = await import('./sdk.ts')
  // The host alone: paths and queries may be secrets.
  log.info({ receiver: new URL(options.url).host, sampler: options.sampler }, 'tracing.on')
  return openSdk({ options, log, ...parts })
}
