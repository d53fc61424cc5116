/** Starts the HTTP servers of the services that have an interface, on the addresses that the environment names. */

import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { Scope } from '#lib/resource.ts'
import { listenOnLoopback, loopbackPort } from '../http/loopback.ts'
import { createHttpApp } from '../http.ts'
import type { Platform } from '../platform.ts'
import type { Ingress, LoopbackAddress, Service } from '../service.ts'
import type { Bound } from './bounded-close.ts'

const port = (number: number, description: string) =>
  Type.Integer({ minimum: 0, maximum: 65_535, default: number, description })

/** Environment variables of every process that serves HTTP. */
export const processSettings = Type.Object({
  HOST: Type.String({ default: '127.0.0.1', description: 'address that every interface binds' }),
  OPS_PORT: port(9_464, 'of /livez, /readyz and /metrics, in a process without an interface of its own'),
  TRUSTED_PROXIES: Type.String({
    default: '',
    description: 'CIDRs, comma-separated, of proxies whose X-Forwarded-* headers count',
  }),
})

/** The variable that says where an ingress listens. */
export function portSettings(service: Service) {
  if (service.kind !== 'ingress') return Type.Object({})
  const { address, name } = service
  if ('portVariable' in address) {
    return Type.Object({ [address.portVariable]: port(address.port, `of ${name}; 0 takes a free one`) })
  }
  return Type.Object({
    [address.loopbackVariable]: Type.String({
      default: `127.0.0.1:${address.port}`,
      description: `\`host:port\` or a URL of ${name}, which listens on the loopback alone, whatever HOST says (another host stops the start; port 0 takes a free one); clients call it there`,
    }),
  })
}

export interface HttpParts {
  scope: Scope
  bound: Bound
  platform: Platform
  env: Environment
  state: { ready: boolean }
}

export async function startIngresses(
  parts: HttpParts,
  ingresses: Ingress[],
): Promise<Record<string, string>> {
  const { scope, bound, env } = parts
  const addresses: Record<string, string> = {}
  for (const ingress of ingresses) {
    const { address } = ingress
    const app = createApp(ingress.name, parts, 'loopbackVariable' in address)
    const resources = await ingress.routes(app, parts.platform)
    scope.add(`${ingress.name} resources`, bound(resources, deadlines.stop.resourcesMs))
    const settings = loadConfig(portSettings(ingress), env) as Record<string, unknown>
    addresses[address.name] =
      'portVariable' in address
        ? await listen(parts, app, address.portVariable, Number(settings[address.portVariable]))
        : await listenLocally(parts, app, address, String(settings[address.loopbackVariable]))
  }
  return addresses
}

/** Probes and metrics of a process without an interface of its own. */
export async function startOps(parts: HttpParts): Promise<void> {
  const app = createApp('ops', parts)
  const url = await listen(parts, app, 'OPS_PORT', loadConfig(processSettings, parts.env).OPS_PORT)
  parts.platform.log.info({ url }, 'ops.listening')
}

function createApp(name: string, { platform, env, state }: HttpParts, loopbackOnly = false): FastifyInstance {
  const trustedProxies = loadConfig(processSettings, env)
    .TRUSTED_PROXIES.split(',')
    .map((proxy) => proxy.trim())
    .filter((proxy) => proxy !== '')
  return createHttpApp({
    name,
    log: platform.log.child({ service: name }),
    metrics: platform.metrics,
    trustedProxies,
    loopbackOnly,
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
  scope.add(`HTTP of ${variable}`, bound({ close: () => app.close() }, deadlines.stop.requestsMs))
  try {
    await app.listen({ host, port: number })
  } catch (cause) {
    throw cannotListen(`${host} port ${number}`, cause, `${variable} or HOST`)
  }
  const { port: taken } = app.server.address() as AddressInfo
  return `http://${shownHost(host)}:${taken}`
}

/** Binds the loopback, whatever HOST says. */
async function listenLocally(
  { scope, bound }: HttpParts,
  app: FastifyInstance,
  { loopbackVariable, port: usual }: LoopbackAddress,
  setting: string,
): Promise<string> {
  const wanted = loopbackPort(setting, loopbackVariable, usual)
  scope.add(`HTTP of ${loopbackVariable}`, bound({ close: () => app.close() }, deadlines.stop.requestsMs))
  try {
    const listening = scope.add('loopback', await listenOnLoopback(app, wanted))
    return `http://127.0.0.1:${listening.port}`
  } catch (cause) {
    throw cannotListen(`127.0.0.1 and ::1, port ${wanted}`, cause, loopbackVariable)
  }
}

function cannotListen(where: string, cause: unknown, variables: string): AppError {
  const code = (cause as NodeJS.ErrnoException).code ?? 'a fault'
  return new AppError(
    'invalid_configuration',
    `Cannot listen on ${where} (${code}): choose another with ${variables}.`,
    { cause },
  )
}

/** An address that a caller on this machine can use. */
function shownHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/** Throws AppError `invalid_configuration` for an address that is not the loopback's. */
export function checkLoopbackAddress(service: Service, settings: Record<string, unknown>): void {
  if (service.kind !== 'ingress' || !('loopbackVariable' in service.address)) return
  const { loopbackVariable, port: usual } = service.address
  loopbackPort(String(settings[loopbackVariable]), loopbackVariable, usual)
}
