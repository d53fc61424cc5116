/** Lets an HTTP app serve callers on this machine alone: checks its addresses, peers, Host and Origin headers. */

import type { IncomingMessage } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '#lib/errors.ts'
import { isLoopbackAddress, isLoopbackHost } from '#lib/hosts.ts'
import type { Closeable } from '#lib/resource.ts'
import { describeScope } from './api/facts.ts'

export const ipv4Loopback = '127.0.0.1'
export const ipv6Loopback = '::1'
const boundHosts: ReadonlySet<string> = new Set(['localhost', ipv4Loopback, `[${ipv6Loopback}]`])
/** Free ports that are tried until one is free on both addresses. */
const portTriesMax = 20
const noIpv6: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EINVAL'])

/** What listening on ::1 fails with on a machine that has no IPv6. */
export function isWithoutIpv6(error: unknown): boolean {
  return noIpv6.has(codeOf(error))
}

/** The fault of `host`, `host:port` or `http://host:port`, or null: its host must be localhost, 127.0.0.1 or [::1]. */
export function loopbackFault(text: string): string | null {
  const refuse = (why: string) =>
    `${why}: write host:port or http://host:port with the host localhost, 127.0.0.1 or [::1]`
  if (!URL.canParse(withScheme(text))) return refuse('is not an address')
  const url = new URL(withScheme(text))
  if (url.protocol !== 'http:') return refuse('must speak plain HTTP')
  if (`${url.pathname}${url.search}${url.hash}${url.username}` !== '/')
    return refuse('holds more than host and port')
  if (boundHosts.has(url.hostname)) return null
  return refuse(`names ${url.hostname}, but this interface is never opened beyond the loopback`)
}

/** The port of an address without fault. */
export function loopbackPort(text: string, portDefault: number): number {
  const address = withScheme(text)
  const { port } = new URL(address)
  // A URL drops the port that its scheme has anyway.
  if (port === '') return /:80\/?$/.test(address) ? 80 : portDefault
  return Number(port)
}

function withScheme(text: string): string {
  return text.includes('://') ? text : `http://${text}`
}

/** Must be called before routes are added. A page in a browser may call this machine: foreign Hosts and Origins are refused. */
export function registerLoopbackGuard(app: FastifyInstance): void {
  describeScope(app, { problems: ['forbidden'] })
  app.addHook('onRequest', (request, _reply, done) => {
    const why = refusalOf(request)
    done(why === null ? undefined : new AppError('forbidden', why))
  })
}

function refusalOf({ socket, headers, raw }: FastifyRequest): string | null {
  if (!isLoopbackAddress(socket.remoteAddress ?? '')) {
    return 'This interface answers callers on its own machine alone.'
  }
  if (!hostsOf(raw).every(isLoopbackHost)) {
    return 'The Host header must name this machine: localhost, 127.0.0.1 or [::1].'
  }
  const { origin } = headers
  if (origin !== undefined && !(URL.canParse(origin) && isLoopbackHost(new URL(origin).hostname))) {
    return 'Pages of other origins may not call this interface.'
  }
  return null
}

/** All that the request says it was sent to: Host headers, and an address line that is a whole URL. */
function hostsOf({ url = '', rawHeaders }: IncomingMessage): string[] {
  const hosts = rawHeaders
    .filter((_, n) => n % 2 === 1 && rawHeaders[n - 1]!.toLowerCase() === 'host')
    .map(hostOf)
  if (hosts.length === 0) return ['']
  return url.startsWith('/') ? hosts : [...hosts, URL.canParse(url) ? new URL(url).hostname : '']
}

function hostOf(header: string): string {
  return /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::\d{1,5})?$/.exec(header)?.[1] ?? ''
}

/**
 * Listens on 127.0.0.1 and, where the machine has IPv6, on ::1, both under one port (0: a free one). Resolves with it.
 * Throws what the system said when a port is taken. Close it before the app.
 */
export async function listenOnLoopback(
  app: FastifyInstance,
  port: number,
): Promise<{ port: number } & Closeable> {
  for (let tries = 1; ; tries++) {
    const second = await openSecond(app, port)
    try {
      await app.listen({ host: ipv4Loopback, port: second ? portOf(second) : port })
      return { port: portOf(app.server), close: async () => closeServer(second) }
    } catch (error) {
      closeServer(second)
      if (port !== 0 || tries === portTriesMax || codeOf(error) !== 'EADDRINUSE') throw error
    }
  }
}

/** Its connections are handed to the app's one server, with all of its limits. Null on a machine without IPv6. */
function openSecond(app: FastifyInstance, port: number): Promise<Server | null> {
  const server = createServer({ noDelay: true }, (socket) => app.server.emit('connection', socket))
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      if (isWithoutIpv6(error)) resolve(null)
      else reject(error)
    })
    server.listen({ host: ipv6Loopback, port, ipv6Only: true }, () => resolve(server))
  })
}

/** Its last connections end with the app, which waits for what they asked. */
function closeServer(server: Server | null): void {
  server?.close()
}

function portOf(server: Pick<Server, 'address'>): number {
  return (server.address() as AddressInfo).port
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? ''
}
