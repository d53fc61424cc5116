/** Takes the ports of all interfaces before anything else is opened, and keeps them until their servers listen. */

import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { ipv4Loopback, ipv6Loopback, isWithoutIpv6 } from '../http/loopback.ts'

export interface WantedPort {
  /** The variables that choose it, as they are named in a fault. */
  variables: string
  /** Null: 127.0.0.1 and, where there is IPv6, ::1. */
  host: string | null
  /** 0 is not held: the system gives a free one later. */
  port: number
}

export interface HeldPorts extends Closeable {
  /** Frees the port for the server that is about to listen. */
  release(port: number): Promise<void>
}

/** Throws AppError `invalid_configuration` that names every port which is not free. */
export async function holdPorts(wanted: readonly WantedPort[]): Promise<HeldPorts> {
  const held = new Map<number, Server[]>()
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

export function cannotListen(where: string, cause: unknown, variables: string): string {
  const code = (cause as NodeJS.ErrnoException).code ?? 'a fault'
  const why = Object.hasOwn(reasons, code) ? reasons[code] : code
  return `Cannot listen on ${where} (${why}): choose another with ${variables}.`
}
