/** Places for connections: bounded in all and for each address. Where one is wanted, the idlest connection goes. */

import { BlockList, isIPv6, type Socket } from 'node:net'
import { clientNetwork } from '#lib/hosts.ts'

export interface Place {
  readonly socket: Socket
}

export interface Places<T extends Place> {
  readonly count: number
  /** Null where no place can be made: the socket is closed then. The place is idle, and free when the socket closes. */
  take(socket: Socket): T | null
  of(socket: Socket): T | undefined
  all(): Iterable<T>
  /** Idle from now on: it goes when those that were idle before are gone. */
  rest(place: T): void
  /** Not idle any more. */
  wake(place: T): void
}

export interface PlaceLimits {
  connectionsMax: number
  addressConnectionsMax: number
}

interface Address<T> {
  count: number
  idle: Set<T>
}

/** `trustedProxies` are CIDRs of those that carry the connections of many: they have no bound of an address. */
export function createPlaces<T extends Place>(
  limits: PlaceLimits,
  trustedProxies: readonly string[],
  { make, freed }: { make(socket: Socket): T; freed(place: T): void },
): Places<T> {
  const isProxy = listOf(trustedProxies)
  const all = new Map<Socket, T>()
  const addresses = new Map<string, Address<T>>()
  const addressOf = new Map<T, string>()
  /** Idle longest first. */
  const idle = new Set<T>()

  const idleOf = (place: T) => addresses.get(addressOf.get(place) ?? '')?.idle

  function wake(place: T): void {
    idle.delete(place)
    idleOf(place)?.delete(place)
  }

  function rest(place: T): void {
    if (!all.has(place.socket)) return
    idle.add(place)
    idleOf(place)?.add(place)
  }

  function free(place: T): void {
    if (!all.delete(place.socket)) return
    wake(place)
    const network = addressOf.get(place)
    addressOf.delete(place)
    const address = network === undefined ? undefined : addresses.get(network)
    if (address && --address.count === 0) addresses.delete(network!)
    freed(place)
  }

  function makeRoom(among: Set<T>): boolean {
    const [longest] = among
    if (!longest) return false
    free(longest)
    longest.socket.destroy()
    return true
  }

  function hasRoom(address: Address<T> | undefined): boolean {
    if (address && address.count >= limits.addressConnectionsMax && !makeRoom(address.idle)) return false
    return all.size < limits.connectionsMax || makeRoom(idle)
  }

  return {
    get count() {
      return all.size
    },
    take(socket) {
      const peer = socket.remoteAddress ?? ''
      const network = isProxy(peer) ? null : clientNetwork(peer)
      if (!hasRoom(network === null ? undefined : addresses.get(network))) {
        socket.destroy()
        return null
      }
      const place = make(socket)
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
    of: (socket) => all.get(socket),
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
