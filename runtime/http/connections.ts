/**
 * The connections of a process, over all of its interfaces: bounded in all and for each address, the idlest makes room for a
 * new one. What arrives on them of requests without a caller is counted.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { BlockList, isIPv6, type Socket } from 'node:net'
import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { AppError } from '#lib/errors.ts'
import { clientNetwork } from '#lib/hosts.ts'
import { answerRaw } from './errors.ts'
import type { Holding, Strangers } from './strangers.ts'

export interface ConnectionLimits {
  connectionsMax: number
  addressConnectionsMax: number
  /** A new connection that says nothing for so long is closed. */
  firstByteMs: number
  /** How often unfinished headers and bodies are measured. */
  lookMs: number
}

const usualLimits: ConnectionLimits = {
  connectionsMax: budgets.http.connectionsMax,
  addressConnectionsMax: budgets.http.addressConnectionsMax,
  firstByteMs: deadlines.request.firstByteMs,
  lookMs: 200,
}

/** Line ends between requests are no beginning of one. */
const lineEndsMax = 4

interface Connection {
  readonly socket: Socket
  openedMs: number
  /** `bytesRead` of the socket when its last request was over; null before the first request. */
  mark: number | null
  /** The last request, until it is known to have arrived whole. */
  request: IncomingMessage | null
  response: ServerResponse | null
  /** Requests under way: more than one when they are pipelined. */
  running: number
  /** `bytesRead` when what it holds began. */
  heldFrom: number
  holding: Holding | null
}

interface ConnectionsOptions {
  strangers: Strangers
  /** CIDRs of proxies, which carry the connections of many. */
  trustedProxies?: readonly string[]
  limits?: ConnectionLimits
}

export function createConnections(options: ConnectionsOptions) {
  const { strangers, trustedProxies = [], limits = usualLimits } = options
  let looking: NodeJS.Timeout | undefined
  const places = createPlaces(limits, trustedProxies, (one) => {
    endHolding(one)
    if (places.count > 0) return
    clearInterval(looking)
    looking = undefined
  })

  function refuse(one: Connection, fault: AppError): void {
    places.wake(one)
    one.holding = null
    const { socket, response } = one
    // Bytes of another answer are on the way already, or the request was answered before its body came.
    if (response?.headersSent) socket.destroy()
    else answerRaw(socket, fault)
  }

  function hold(one: Connection, from: number, announcedBytes: number): void {
    endHolding(one)
    one.heldFrom = from
    one.holding = strangers.begin(announcedBytes, (fault) => refuse(one, fault))
    one.holding.arrived(one.socket.bytesRead - from)
  }

  function look(): void {
    const nowMs = performance.now()
    for (const one of places.all()) if (!one.socket.writableEnded) lookAt(one, nowMs)
  }

  function lookAt(one: Connection, nowMs: number): void {
    const { socket, request, running, holding } = one
    if (running === 0 && request?.complete) {
      // The rest of a body that was refused has arrived.
      endHolding(one)
      one.request = null
      one.response = null
      one.mark = socket.bytesRead
    } else if (holding) {
      holding.arrived(socket.bytesRead - one.heldFrom)
    } else if (running === 0) {
      const from = one.mark ?? 0
      if (socket.bytesRead - from > lineEndsMax) hold(one, from, 0)
      else if (one.mark === null && nowMs - one.openedMs >= limits.firstByteMs) socket.destroy()
    }
  }

  return {
    /** Open ones. */
    get count() {
      return places.count
    },
    /** A new one. Makes room, or closes it where nothing idle is left. */
    accept(socket: Socket): void {
      if (places.take(socket)) looking ??= setInterval(look, limits.lookMs).unref()
    },
    /** Its request begins; the connection is idle again when the answer is over. */
    begin(request: IncomingMessage, response: ServerResponse): void {
      const one = places.of(request.socket)
      if (!one) return
      endHolding(one)
      one.request = request
      one.response = response
      if (one.running++ === 0) places.wake(one)
      response.once('close', () => {
        endHolding(one)
        if (--one.running > 0) return
        one.mark = one.socket.bytesRead
        if (request.complete) {
          one.request = null
          one.response = null
        }
        places.rest(one)
      })
    },
    /** The body of the request under way counts as a stranger's, with the bytes that it announces, until `bodyEnds`. */
    bodyBegins(socket: Socket, announcedBytes: number): void {
      const one = places.of(socket)
      if (one) hold(one, socket.bytesRead, announcedBytes)
    },
    bodyEnds(socket: Socket): void {
      const one = places.of(socket)
      if (one) endHolding(one)
    },
  }
}

function newConnection(socket: Socket): Connection {
  return {
    socket,
    openedMs: performance.now(),
    mark: null,
    request: null,
    response: null,
    running: 0,
    heldFrom: 0,
    holding: null,
  }
}

function endHolding(one: Connection): void {
  one.holding?.end()
  one.holding = null
}

interface Address {
  count: number
  idle: Set<Connection>
}

/** `trustedProxies` are CIDRs of those that carry the connections of many: they have no bound of an address. */
function createPlaces(
  limits: ConnectionLimits,
  trustedProxies: readonly string[],
  freed: (place: Connection) => void,
) {
  const isProxy = listOf(trustedProxies)
  const all = new Map<Socket, Connection>()
  const addresses = new Map<string, Address>()
  const addressOf = new Map<Connection, string>()
  /** Idle longest first. */
  const idle = new Set<Connection>()

  const idleOf = (place: Connection) => addresses.get(addressOf.get(place) ?? '')?.idle

  /** Not idle any more. */
  function wake(place: Connection): void {
    idle.delete(place)
    idleOf(place)?.delete(place)
  }

  /** Idle from now on: it goes when those that were idle before are gone. */
  function rest(place: Connection): void {
    if (!all.has(place.socket)) return
    idle.add(place)
    idleOf(place)?.add(place)
  }

  function free(place: Connection): void {
    if (!all.delete(place.socket)) return
    wake(place)
    const network = addressOf.get(place)
    addressOf.delete(place)
    const address = network === undefined ? undefined : addresses.get(network)
    if (address && --address.count === 0) addresses.delete(network!)
    freed(place)
  }

  function makeRoom(among: Set<Connection>): boolean {
    const [longest] = among
    if (!longest) return false
    free(longest)
    longest.socket.destroy()
    return true
  }

  function hasRoom(address: Address | undefined): boolean {
    if (address && address.count >= limits.addressConnectionsMax && !makeRoom(address.idle)) return false
    return all.size < limits.connectionsMax || makeRoom(idle)
  }

  return {
    get count() {
      return all.size
    },
    /** Null where no place can be made: the socket is closed then. The place is idle, and free when the socket closes. */
    take(socket: Socket): Connection | null {
      const peer = socket.remoteAddress ?? ''
      const network = isProxy(peer) ? null : clientNetwork(peer)
      if (!hasRoom(network === null ? undefined : addresses.get(network))) {
        socket.destroy()
        return null
      }
      const place = newConnection(socket)
      all.set(socket, place)
      if (network !== null) {
        const address = addresses.get(network) ?? { count: 0, idle: new Set() }
        address.count++
        addresses.set(network, address)
        addressOf.set(place, network)
      }
      rest(place)
      socket.once('close', () => free(place))
      return place
    },
    of: (socket: Socket) => all.get(socket),
    all: () => all.values(),
    rest,
    wake,
  }
}

function listOf(cidrs: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const [address = '', bits] = cidr.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    list.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  return (address) => address !== '' && list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
