/**
 * Starts the HTTP servers of the services that have an interface, on the addresses that the environment names. Their ports are
 * taken before anything else is opened, and kept until they listen.
 */

import { once } from 'node:events'
import { type AddressInfo, createServer, isIP, isIPv6, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { Scope, Stop } from '#lib/resource.ts'
import { createHttpApp, createHttpProcess, type HttpAppOptions } from '../http/app.ts'
import {
  ipv4Loopback,
  ipv6Loopback,
  isWithoutIpv6,
  listenOnLoopback,
  loopbackFault,
  loopbackPort,
} from '../http/loopback.ts'
import { consoleUrlOf } from './addresses.ts'
import type { Platform } from './platform.ts'
import type { Ingress, Routes, Service } from './service.ts'

const port = (number: number, description: string) =>
  Type.Integer({ minimum: 0, maximum: 65_535, default: number, description })

/** Environment variables of every process that serves HTTP. */
export const processSettings = Type.Object({
  HOST: Type.String({ default: '127.0.0.1', description: 'address that every interface binds' }),
  OPS_PORT: port(9_464, 'of /livez, /readyz and /metrics, in a process without an interface of its own'),
  TRUSTED_PROXIES: Type.Refine(
    Type.String({
      default: '',
      description: 'CIDRs, comma-separated, of proxies whose X-Forwarded-* headers count',
    }),
    (proxies) => listed(proxies).every(isCidr),
    () => 'must be addresses or CIDRs, comma-separated, for example 10.0.0.0/8',
  ),
})

function listed(text: string): string[] {
  return text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
}

function isCidr(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/')
  if (more.length > 0 || isIP(address) === 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (isIPv6(address) ? 128 : 32))
}

/** The variable that says where an ingress listens. */
export function portSettings(service: Service) {
  if (service.kind !== 'ingress') return Type.Object({})
  const { address, name } = service
  if ('portVariable' in address) {
    return Type.Object({ [address.portVariable]: port(address.port, `of ${name}; 0 takes a free one`) })
  }
  return Type.Object({
    [address.loopbackVariable]: Type.Refine(
      Type.String({
        default: `127.0.0.1:${address.port}`,
        description: `\`host:port\` or a URL of ${name}, which listens on the loopback alone, whatever HOST says (another host stops the start; port 0 takes a free one); clients call it there`,
      }),
      (text) => loopbackFault(text) === null,
      (text) => loopbackFault(text) ?? '',
    ),
  })
}

/** Where the chosen services will listen; without an ingress, where their probes and metrics are. */
export function wantedPorts(chosen: readonly Service[], env: Environment): WantedPort[] {
  const { HOST: host, OPS_PORT } = loadConfig(processSettings, env)
  const ingresses = chosen.filter((service) => service.kind === 'ingress')
  if (ingresses.length === 0) return [{ variables: 'OPS_PORT or HOST', host, port: OPS_PORT }]
  return ingresses.map((ingress) => wantedPort(ingress, host, env))
}

function wantedPort(ingress: Ingress, host: string, env: Environment): WantedPort {
  const { address } = ingress
  const settings = loadConfig(portSettings(ingress), env) as Record<string, unknown>
  if ('portVariable' in address) {
    const { portVariable } = address
    return { variables: `${portVariable} or HOST`, host, port: Number(settings[portVariable]) }
  }
  const { loopbackVariable, port } = address
  return {
    variables: loopbackVariable,
    host: null,
    port: loopbackPort(String(settings[loopbackVariable]), port),
  }
}

export interface HttpParts {
  scope: Scope
  stop: Stop
  platform: Platform
  env: Environment
  ports: HeldPorts
  state: { ready: boolean }
}

function trustedProxiesOf(env: Environment): string[] {
  return listed(loadConfig(processSettings, env).TRUSTED_PROXIES)
}

export interface LoadedIngress {
  ingress: Ingress
  routes: Routes
}

/** Opened at the same time, as each waits for the database now and then; then they listen, in their order. */
export async function startIngresses(
  parts: HttpParts,
  loaded: readonly LoadedIngress[],
): Promise<Record<string, string>> {
  const { scope, stop, env } = parts
  const { HOST } = loadConfig(processSettings, env)
  const process = createHttpProcess({ trustedProxies: trustedProxiesOf(env) })
  const apps = loaded.map(({ ingress }) =>
    createApp(ingress.name, parts, {
      process,
      loopbackOnly: 'loopbackVariable' in ingress.address,
      ...(ingress.headerBytesMax === undefined ? {} : { headerBytesMax: ingress.headerBytesMax }),
    }),
  )
  const opening = loaded.map(async ({ ingress, routes }, at) => {
    const resources = await routes(apps[at]!, parts.platform)
    scope.add(`${ingress.name} resources`, stop.bound(resources, deadlines.stop.resourcesMs))
  })
  // One that fails must not leave another one's resources behind.
  await Promise.allSettled(opening)
  await Promise.all(opening)
  const addresses: Record<string, string> = {}
  for (const [at, { ingress }] of loaded.entries()) {
    const { address } = ingress
    const url = await listen(parts, apps[at]!, wantedPort(ingress, HOST, env))
    addresses[address.name] = url
    if ('further' in address) Object.assign(addresses, address.further?.(url, env))
  }
  process.consoleUrl = consoleUrlOf(addresses, env)
  return addresses
}

/** Probes and metrics of a process without an interface of its own. */
export async function startOps(parts: HttpParts): Promise<void> {
  const app = createApp('ops', parts)
  const [wanted] = wantedPorts([], parts.env)
  const url = await listen(parts, app, wanted!)
  parts.platform.log.info({ url }, 'ops.listening')
}

function createApp(
  name: string,
  { platform, env, state }: HttpParts,
  more: Pick<HttpAppOptions, 'process' | 'loopbackOnly' | 'headerBytesMax'> = {},
): FastifyInstance {
  return createHttpApp({
    name,
    log: platform.log.child({ service: name }),
    metrics: platform.metrics,
    trustedProxies: trustedProxiesOf(env),
    tracing: platform.tracing,
    ready: () => state.ready,
    ...more,
  })
}

async function listen(
  { scope, stop, ports }: HttpParts,
  app: FastifyInstance,
  wanted: WantedPort,
): Promise<string> {
  const { variables, host, port } = wanted
  scope.add(`HTTP of ${variables}`, stop.bound({ close: () => app.close() }, deadlines.stop.requestsMs))
  await ports.release(port)
  try {
    if (host === null) {
      const listening = scope.add('loopback', await listenOnLoopback(app, port))
      return `http://127.0.0.1:${listening.port}`
    }
    await app.listen({ host, port })
  } catch (cause) {
    const where = host === null ? `127.0.0.1 and ::1, port ${port}` : `${host} port ${port}`
    throw new AppError('invalid_configuration', cannotListen(where, cause, variables), { cause })
  }
  const { port: taken } = app.server.address() as AddressInfo
  return `http://${shownHost(host)}:${taken}`
}

/** An address that a caller on this machine can use. */
function shownHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

export interface WantedPort {
  /** The variables that choose it, as they are named in a fault. */
  variables: string
  /** Null: 127.0.0.1 and, where there is IPv6, ::1. */
  host: string | null
  /** 0 is not held: the system gives a free one later. */
  port: number
}

export type HeldPorts = Awaited<ReturnType<typeof holdPorts>>

/** Throws AppError `invalid_configuration` that names every port which is not free. */
export async function holdPorts(wanted: readonly WantedPort[]) {
  const held = new Map<number, Server[]>()
  /** Frees the port for the server that is about to listen. */
  const release = async (port: number) => {
    const servers = held.get(port) ?? []
    held.delete(port)
    await Promise.all(servers.map((server) => closed(server)))
  }
  const close = async () => {
    await Promise.all([...held.keys()].map(release))
  }
  const faults: string[] = []
  for (const { variables, host, port } of wanted.filter((one) => one.port !== 0)) {
    for (const at of host === null ? [ipv4Loopback, ipv6Loopback] : [host]) {
      try {
        held.set(port, [...(held.get(port) ?? []), await hold(at, port)])
      } catch (error) {
        if (host === null && at === ipv6Loopback && isWithoutIpv6(error)) continue
        faults.push(cannotListen(`${at} port ${port}`, error, variables))
        break
      }
    }
  }
  if (faults.length === 0) return { release, close }
  await close()
  throw new AppError('invalid_configuration', faults.join('\n'))
}

/** Who connects too early is cut off, as if nobody listened. */
async function hold(host: string, port: number): Promise<Server> {
  const server = createServer((socket) => socket.destroy())
  server.listen({ host, port, ipv6Only: host === ipv6Loopback, exclusive: true })
  await once(server, 'listening')
  return server.unref()
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another server has it',
  EADDRNOTAVAIL: 'this machine does not have that address',
  EACCES: 'this user may not take that port',
  ENOTFOUND: 'that host has no address',
  EAI_AGAIN: 'that host has no address',
}

function cannotListen(where: string, cause: unknown, variables: string): string {
  const code = (cause as NodeJS.ErrnoException).code ?? 'a fault'
  const why = Object.hasOwn(reasons, code) ? reasons[code] : code
  return `Cannot listen on ${where} (${why}): choose another with ${variables}.`
}
