/** The composition root: names of services in, a running process out; everything is closed in reverse. */

import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { type TProperties, Type } from 'typebox'
import { engineSettings, refuseSharing } from '#engines/open.ts'
import { withTimeout } from '#lib/backoff.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { type Closeable, createScope, type Scope } from '#lib/resource.ts'
import { removeAddresses, writeAddresses } from './addresses.ts'
import { type ControlHandler, openControlServer } from './control.ts'
import { createHttpApp } from './http.ts'
import { openPlatform, type Platform } from './platform.ts'
import type { Ingress, Service, ServiceContext, Worker } from './service.ts'
import { choicesOf, homeSettings } from './settings.ts'

const port = (number: number, description: string) =>
  Type.Integer({ minimum: 0, maximum: 65_535, default: number, description })

/** Environment variables of a process that serves, whatever its services. */
export const processSettings = Type.Object({
  HOST: Type.String({ default: '127.0.0.1', description: 'address that every interface binds' }),
  OPS_PORT: port(9_464, 'of /livez, /readyz and /metrics, in a process without an interface of its own'),
  TRUSTED_PROXIES: Type.String({
    default: '',
    description: 'CIDRs, comma-separated, of proxies whose X-Forwarded-* headers count',
  }),
})

/** A stop takes ten seconds at most: requests in flight, then workers, then engines with what is left. */
const stopMs = 9_500
const ingressCloseMs = 3_000
const workerCloseMs = 4_000

export interface StartOptions {
  /** All services that there are. */
  services: readonly Service[]
  /** Names of those to start; none means all. */
  chosen: readonly string[]
  env: Environment
  log: Logger
  /** Prints the address lines and `ready`. */
  print(line: string): void
  /** Answers the commands that come in over the control socket. */
  control(platform: Platform): ControlHandler
  /** Ends the waiting for engines that are away. */
  signal?: AbortSignal
}

export interface RunningPlatform extends Closeable {
  platform: Platform
  /** `vector_url` and its like, of the interfaces that run here. */
  addresses: Record<string, string>
}

/** Starts services in this process. Throws AppError for wrong names or settings; what was opened is closed again. */
export async function startPlatform(options: StartOptions): Promise<RunningPlatform> {
  const chosen = chooseServices(options.services, options.chosen)
  checkSettings(options, chosen)
  const needs = new Map(options.services.map((service) => [service.name, needsOf(service)]))
  refuseSharing(
    choicesOf(options.env),
    needs,
    chosen.map((service) => service.name),
  )
  const scope = createScope((part, error) => {
    options.log.error({ part, reason: describeError(error) }, 'stop.failed')
  })
  try {
    return await startInto(scope, options, chosen)
  } catch (error) {
    await scope.close()
    throw error
  }
}

async function startInto(scope: Scope, options: StartOptions, chosen: Service[]): Promise<RunningPlatform> {
  const { env, log } = options
  const platform = await openPlatform({
    env,
    needs: chosen.flatMap(needsOf),
    producerName:
      chosen.length === options.services.length ? 'flotilla' : chosen.map((one) => one.name).join('+'),
    log,
    lock: true,
    ...(options.signal ? { signal: options.signal } : {}),
  })
  // A process that was killed may have left its own: the directory is ours now.
  removeAddresses(platform.home)
  const bound = createBound()
  scope.add('platform', bound(platform))
  const workers = chosen.filter((service) => service.kind === 'worker')
  const ingresses = chosen.filter((service) => service.kind === 'ingress')
  scope.add('workers', bound(await startWorkers(workers, platform, env), workerCloseMs))
  const state = { ready: false }
  const parts: HttpParts = { scope, bound, platform, env, state }
  const addresses = await startIngresses(parts, ingresses)
  if (ingresses.length === 0) await startOps(parts)
  if (Object.values(platform.choices).some((choice) => choice.embedded)) {
    scope.add('control socket', await openControlServer(platform.home, options.control(platform)))
  }
  for (const [name, url] of Object.entries(addresses)) options.print(`${name} ${url}`)
  writeAddresses(platform.home, addresses)
  scope.add('addresses', {
    async close() {
      state.ready = false
      removeAddresses(platform.home)
    },
  })
  state.ready = true
  options.print('ready')
  log.info({ services: chosen.map((service) => service.name), addresses }, 'started')
  return { platform, addresses, close: () => scope.close() }
}

function chooseServices(services: readonly Service[], names: readonly string[]): Service[] {
  const unknown = names.filter((name) => !services.some((service) => service.name === name))
  if (unknown.length > 0) {
    throw new AppError(
      'bad_request',
      `There is no service named ${unknown.join(', ')}. There are: ${services.map((one) => one.name).join(', ')}.`,
    )
  }
  return names.length === 0 ? [...services] : services.filter((service) => names.includes(service.name))
}

/** Log, registry and database are under every service; the rest is what it names. */
function needsOf(service: Service) {
  return ['eventLog', 'schemaRegistry', 'relational', ...service.needs] as const
}

/** All faulty variables of engines, process and services come in one message, before anything is opened. */
function checkSettings(options: StartOptions, chosen: Service[]): void {
  const properties: TProperties = {
    ...homeSettings.properties,
    ...engineSettings.properties,
    ...processSettings.properties,
  }
  for (const service of chosen) {
    Object.assign(properties, service.config.properties, portSettings(service).properties)
  }
  loadConfig(Type.Object(properties), options.env)
}

/** The variable that says where an ingress listens. */
export function portSettings(service: Service) {
  return Type.Object(
    service.kind === 'ingress'
      ? {
          [service.address.portVariable]: port(
            service.address.port,
            `of ${service.name}; 0 takes a free one`,
          ),
        }
      : {},
  )
}

/** What a service is given when it starts. */
export function contextOf(
  service: Service,
  platform: Platform,
  env: Environment,
): ServiceContext<never, never> {
  return {
    engines: platform.engines,
    config: loadConfig(service.config, env) as never,
    log: platform.log.child({ service: service.name }),
    metrics: platform.metrics,
    publisher: platform.publisher,
    codec: platform.codec,
    instanceId: platform.instanceId,
  }
}

/** Workers stop side by side: each drains for as long as its calls take. */
async function startWorkers(workers: Worker[], platform: Platform, env: Environment): Promise<Closeable> {
  const running: Closeable[] = []
  const closeAll = async () => {
    await Promise.all(running.splice(0).map((worker) => worker.close()))
  }
  try {
    for (const worker of workers) running.push(await worker.start(contextOf(worker, platform, env) as never))
  } catch (error) {
    await closeAll()
    throw error
  }
  return { close: closeAll }
}

interface HttpParts {
  scope: Scope
  bound: Bound
  platform: Platform
  env: Environment
  state: { ready: boolean }
}

async function startIngresses(parts: HttpParts, ingresses: Ingress[]): Promise<Record<string, string>> {
  const { scope, bound, platform, env } = parts
  const addresses: Record<string, string> = {}
  for (const ingress of ingresses) {
    const app = createApp(ingress.name, parts)
    const resources = await ingress.routes(app, contextOf(ingress, platform, env) as never)
    scope.add(`${ingress.name} resources`, bound(resources, workerCloseMs))
    const number = Number(loadConfig(portSettings(ingress), env)[ingress.address.portVariable])
    addresses[ingress.address.name] = await listen(parts, app, ingress.address.portVariable, number)
  }
  return addresses
}

/** A process without an interface of its own still says how it is. */
async function startOps(parts: HttpParts): Promise<void> {
  const app = createApp('ops', parts)
  const url = await listen(parts, app, 'OPS_PORT', loadConfig(processSettings, parts.env).OPS_PORT)
  parts.platform.log.info({ url }, 'ops.listening')
}

function createApp(name: string, { platform, env, state }: HttpParts): FastifyInstance {
  const trustedProxies = loadConfig(processSettings, env)
    .TRUSTED_PROXIES.split(',')
    .map((proxy) => proxy.trim())
    .filter((proxy) => proxy !== '')
  return createHttpApp({
    name,
    log: platform.log.child({ service: name }),
    metrics: platform.metrics,
    trustedProxies,
    ready: () => state.ready,
  })
}

async function listen(
  { scope, bound, env }: HttpParts,
  app: FastifyInstance,
  variable: string,
  number: number,
): Promise<string> {
  const { HOST: host } = loadConfig(processSettings, env)
  scope.add(`HTTP of ${variable}`, bound({ close: () => app.close() }, ingressCloseMs))
  try {
    await app.listen({ host, port: number })
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'a fault'
    throw new AppError(
      'invalid_configuration',
      `Cannot listen on ${host} port ${number} (${code}): choose another with ${variable} or HOST.`,
      { cause },
    )
  }
  const { port: taken } = app.server.address() as AddressInfo
  return `http://${shownHost(host)}:${taken}`
}

/** An address that a caller on this machine can use. */
function shownHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/** Bounds closes: each by its own limit, all together by the stop's. Nothing acknowledged is lost where one gives up. */
type Bound = (resource: Closeable, ms?: number) => Closeable

function createBound(): Bound {
  let endsAt: number | undefined
  return (resource, ms = stopMs) => ({
    close() {
      endsAt ??= Date.now() + stopMs
      const limit = Math.max(0, Math.min(ms, endsAt - Date.now()))
      return withTimeout(resource.close(), limit, () => new Error(`did not close within ${limit} ms`))
    },
  })
}
