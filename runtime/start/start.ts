/** The composition root: starts the chosen services in this process and closes everything in reverse. */

import type { Logger } from 'pino'
import { type TObject, type TProperties, Type } from 'typebox'
import { engineSettings, refuseSharing } from '#engines/open.ts'
import { checkConfiguration, type Environment } from '#lib/config.ts'
import { dataDirectoryFault, dataDirectoryInUse, dataDirectoryOwner } from '#lib/data-directory.ts'
import { checkDeadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { nearestName } from '#lib/nearest-name.ts'
import { type Closeable, createScope, createStop, type Scope } from '#lib/resource.ts'
import { openFilesFault } from '#lib/system-faults.ts'
import { followDeadLetters, parkedBy } from '../consume/dead-letter-counts.ts'
import { logSettings } from '../observe/log.ts'
import { tracingSettings } from '../observe/tracing/settings.ts'
import { removeAddresses, removeLeftAddresses, writeAddresses } from './addresses.ts'
import { type ControlHandler, openControlServer } from './control.ts'
import {
  type HeldPorts,
  type HttpParts,
  holdPorts,
  type LoadedIngress,
  portSettings,
  processSettings,
  startIngresses,
  startOps,
  wantedPorts,
} from './ingress.ts'
import { commonNeeds, openPlatform, type Platform } from './platform.ts'
import type { EngineName, Ingress, Service, ServiceHost, Worker } from './service.ts'
import { choicesOf, homeOf, homeSettings } from './settings.ts'

export { portSettings, processSettings } from './ingress.ts'

interface StartOptions {
  /** All services of the platform. */
  services: readonly Service[]
  /** Folders of the migrations of all areas. */
  migrations: readonly string[]
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
  /** URLs of the interfaces that run here, by their names. */
  addresses: Record<string, string>
  /** How much longer than usual its close may take. */
  drainMs: number
}

/** Starts services in this process. Throws AppError for wrong names or settings; opened resources are closed again. */
export async function startPlatform(options: StartOptions): Promise<RunningPlatform> {
  checkDeadlines()
  const chosen = chooseServices(options.services, options.chosen)
  checkSettings(options, chosen)
  for (const { variable, meant } of nearlyOurs(settingsOf(options.services), options.env)) {
    options.log.warn({ variable, hint: `not read; did you mean ${meant}?` }, 'settings.unknown-variable')
  }
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
  const ports = scope.add('ports', await takePorts(chosen, env))
  const workers = chosen.filter((service) => service.kind === 'worker')
  const ingresses = chosen.filter((service) => service.kind === 'ingress')
  let loading: Promise<LoadedIngress[]> | undefined
  const load = () => {
    loading ??= loadServices(workers, ingresses, env)
    return loading
  }
  const platform = await openPlatform({
    env,
    needs: chosen.flatMap(needsOf),
    migrations: options.migrations,
    producerName:
      chosen.length === options.services.length ? 'flotilla' : chosen.map((one) => one.name).join('+'),
    log,
    lock: true,
    traced: true,
    whileOpening() {
      // Its fault is thrown below, unless that of the engines comes first.
      load().catch(() => {})
    },
    ...(options.signal ? { signal: options.signal } : {}),
  })
  const killed = removeLeftAddresses(platform.home)
  const drainMs = drainMsOf(chosen, env)
  const stop = createStop(drainMs)
  scope.add('platform', stop.bound(platform))
  const loaded = await load()
  const { eventLog } = platform.engines
  const parked = parkedBy(chosen.map(({ name }) => name))
  scope.add('dead letters', stop.bound(followDeadLetters({ ...platform, eventLog }, parked)))
  const started = await startWorkers(workers, { ...platform, drainMs: stop.drainMs })
  scope.add('workers', stop.boundWorkers(started))
  const state = { ready: false }
  const parts: HttpParts = { scope, stop, platform, env, ports, state }
  const addresses = await startIngresses(parts, loaded)
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
  if (killed !== null) log.info({ killed }, 'process.recovered-after-unclean-stop')
  log.info({ services: chosen.map((service) => service.name), addresses }, 'process.started')
  return { platform, addresses, drainMs: drainMs ?? 0, close: () => scope.close() }
}

async function loadServices(
  workers: readonly Worker[],
  ingresses: readonly Ingress[],
  env: Environment,
): Promise<LoadedIngress[]> {
  const [loaded] = await Promise.all([
    Promise.all(ingresses.map(async (ingress) => ({ ingress, routes: await ingress.load(env) }))),
    Promise.all(workers.map(async (worker) => worker.load?.())),
  ])
  return loaded
}

/** How much longer than usual a stop may take: of a worker that has the process to itself, and says so. */
function drainMsOf(chosen: readonly Service[], env: Environment): number | undefined {
  const [only, ...others] = chosen
  return only?.kind === 'worker' && others.length === 0 ? only.drainMs?.(env) : undefined
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

function needsOf(service: Service): EngineName[] {
  return [...commonNeeds, ...service.needs]
}

/** Every variable that these services read. */
export function settingsOf(services: readonly Service[]) {
  const properties: TProperties = {
    ...homeSettings.properties,
    ...engineSettings.properties,
    ...processSettings.properties,
    ...logSettings.properties,
    ...tracingSettings.properties,
  }
  for (const service of services) {
    Object.assign(properties, service.config.properties, portSettings(service).properties)
  }
  return Type.Object(properties)
}

/** Reports all faults of the settings and of the files that they name in one message, before anything is opened. */
export function checkSettings(
  { services, env }: Pick<StartOptions, 'services' | 'env'>,
  chosen: Service[],
): void {
  const needs = new Map(services.map((service) => [service.name, needsOf(service)]))
  const names = chosen.map((service) => service.name)
  checkConfiguration(settingsOf(chosen), env, [
    // Without a faulty variable an engine would seem to be embedded.
    (sound) => refuseSharing(choicesOf(sound), needs, sound === env ? names : [...needs.keys()]),
    (sound) => refuse(dataDirectoryFault(homeOf(sound))),
    () => refuse(openFilesFault()),
    ...chosen.map((service) => (sound: Environment) => service.check?.(sound)),
  ])
}

function refuse(fault: AppError | null): void {
  if (fault) throw fault
}

/** A platform that runs on this data directory already is named as the reason, rather than the ports that it has. */
async function takePorts(chosen: readonly Service[], env: Environment): Promise<HeldPorts> {
  try {
    return await holdPorts(wantedPorts(chosen, env))
  } catch (error) {
    const home = homeOf(env)
    const owner = dataDirectoryOwner(home)
    throw owner === null ? error : dataDirectoryInUse(home, owner)
  }
}

/** They stop at the same time: each drains for as long as its calls take. */
export async function startWorkers(workers: Worker[], host: ServiceHost): Promise<Closeable> {
  const running: Closeable[] = []
  const closeAll = async () => {
    await Promise.all(running.splice(0).map((worker) => worker.close()))
  }
  try {
    for (const worker of workers) running.push(await worker.start(host))
  } catch (error) {
    await closeAll()
    throw error
  }
  return { close: closeAll }
}

/** Shorter names are near to many that belong to others, as HOST is to HOME. */
const lengthMin = 7

/** Pairs of a variable as set and as probably meant; a mistyped name rarely has another first letter. */
export function nearlyOurs(settings: TObject, env: Environment): { variable: string; meant: string }[] {
  const known = Object.keys(settings.properties)
  return Object.keys(env).flatMap((variable) => {
    if (variable.length < lengthMin || !env[variable] || known.includes(variable)) return []
    const meant = nearestName(
      variable,
      known.filter((name) => name[0] === variable[0]?.toUpperCase()),
    )
    return meant === null ? [] : [{ variable, meant }]
  })
}
