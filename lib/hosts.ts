/**
 * Recognises names and addresses of this machine, and those at which machines of clouds find credentials; says which
 * addresses belong to one client.
 */

import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'

const linkLocal = new BlockList()
linkLocal.addSubnet('169.254.0.0', 16, 'ipv4')
linkLocal.addSubnet('fe80::', 10, 'ipv6')
// 169.254.0.0/16 inside IPv6: NAT64, 6to4, IPv4-compatible and IPv4-translated addresses.
for (const prefix of ['64:ff9b::', '64:ff9b:1::', '::', '::ffff:0:']) {
  linkLocal.addSubnet(`${prefix}a9fe:0`, 112, 'ipv6')
}
linkLocal.addSubnet('2002:a9fe::', 32, 'ipv6')
// The metadata service of one large cloud over IPv6.
linkLocal.addAddress('fd00:ec2::254', 'ipv6')

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** `localhost`, a name below it, or an address of the loopback; IPv6 is in brackets, as in a URL. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '')
  if (name === 'localhost' || name.endsWith('.localhost')) return true
  const bracketed = /^\[(.*)\]$/.exec(name)?.[1]
  return bracketed === undefined ? isIPv4(name) && isLoopbackAddress(name) : isLoopbackAddress(bracketed)
}

/** An address as a socket reports it. */
export function isLoopbackAddress(address: string): boolean {
  return listed(loopback, address)
}

/** Addresses at which machines of clouds find their own credentials: nothing is sent there. */
export function isLinkLocal(address: string): boolean {
  return listed(linkLocal, address)
}

/**
 * What counts as one client: an IPv4 address, or the /64 of an IPv6 address, because whoever has one address of it has
 * all of them. An IPv4 address in IPv6 form is that address. Anything else is given back as it came.
 */
export function clientNetwork(address: string): string {
  const plain = address.replace(/%.*$/, '').toLowerCase()
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1]
  if (mapped !== undefined && isIPv4(mapped)) return mapped
  if (!isIPv6(plain)) return address
  const [before = '', after] = plain.split('::')
  const left = groupsOf(before)
  const right = groupsOf(after ?? '')
  // A dotted end holds two groups, but those are never among the first four that matter.
  const dotted = plain.includes('.') ? 1 : 0
  const zeros = Array<string>(Math.max(0, 8 - dotted - left.length - right.length)).fill('0')
  const groups = [...left, ...zeros, ...right].slice(0, 4)
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`
}

function groupsOf(text: string): string[] {
  return text === '' ? [] : text.split(':')
}

function listed(list: BlockList, address: string): boolean {
  const plain = address.replace(/%.*$/, '')
  // An IPv4 address in IPv6 form is that address: BlockList looks through it.
  return isIP(plain) !== 0 && list.check(plain, isIPv6(plain) ? 'ipv6' : 'ipv4')
}
