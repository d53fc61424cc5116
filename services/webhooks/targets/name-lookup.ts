/**
 * Resolves the names of targets. The system's resolver runs on four threads that the whole process shares, so that one
 * dead name could hold up the lookups of all: here each name is asked of the DNS by itself, with its own time-out.
 * Link-local addresses, where machines keep their credentials, are left out at each connection: what a name resolves to
 * may change after its target was checked.
 *
 * lru-cache keeps the answers. No package does the rest: cacheable-lookup asks the DNS before the hosts file, waits for
 * the slower of A and AAAA, and sends any number of unknown names to the system's threads; undici's `interceptors.dns`
 * is a cache alone, and cannot serve the probes, which make no HTTP calls.
 */

import { type LookupAddress, lookup as systemLookup } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { readFileSync, statSync } from 'node:fs'
import type { LookupFunction } from 'node:net'
import { isIP } from 'node:net'
import { LRUCache } from 'lru-cache'
import { sleep } from '#lib/backoff.ts'
import { isLinkLocal } from '#lib/hosts.ts'
import { CallError } from '../deliver/verdict.ts'

const namesMax = 2_000
const keptSMin = 1
const keptSMax = 30
const tryMs = 1_500
const otherFamilyMs = 50
/** At once, so that the system's resolver always has threads for others. */
const systemLookupsMax = 2

/** `servers`: `address:port` of DNS servers; default: the system's. */
export function createNameLookup({
  servers,
  hostsFile = '/etc/hosts',
}: {
  servers?: string[]
  hostsFile?: string
} = {}) {
  const resolver = new Resolver({ timeout: tryMs, tries: 2 })
  if (servers) resolver.setServers(servers)
  const hosts = createHostsFile(hostsFile)
  const askSystem = createSystemLookup()
  const cache = new LRUCache<string, LookupAddress[]>({
    max: namesMax,
    ttl: keptSMin * 1_000,
    // Callers that wait for a name get its answer, also when it is forgotten meanwhile.
    ignoreFetchAbort: true,
    async fetchMethod(name, _stale, { options: kept }) {
      const found = await askDns(resolver, name)
      // Not a name of the DNS: it may be one that only the system knows.
      if (found === null) return askSystem(name)
      kept.ttl = Math.min(keptSMax, Math.max(keptSMin, found.seconds)) * 1_000
      return found.addresses
    },
  })

  async function addressesOf(hostname: string): Promise<LookupAddress[]> {
    const name = plainName(hostname)
    if (name === 'localhost' || name.endsWith('.localhost')) return hosts('localhost') ?? loopback
    return hosts(name) ?? (await cache.fetch(name)) ?? []
  }
  const lookup: LookupFunction = (hostname, wanted, callback) => {
    addressesOf(hostname).then(
      (all) => answerWith(all, wanted, callback),
      (error) => callback(error instanceof CallError ? error : new CallError('dns'), '', 0),
    )
  }
  return {
    lookup,
    /** A connection to it failed: the next lookup asks again. */
    forget: (hostname: string) => void cache.delete(plainName(hostname)),
  }
}

function plainName(hostname: string): string {
  return hostname.toLowerCase().replace(/\.$/, '')
}

const loopback: LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
]

function answerWith(
  all: LookupAddress[],
  wanted: Parameters<LookupFunction>[1],
  callback: Parameters<LookupFunction>[2],
): void {
  const allowed = all.filter(({ address }) => !isLinkLocal(address))
  const first = allowed[0]
  if (first === undefined) callback(new CallError(all.length > 0 ? 'blocked' : 'dns'), '', 0)
  else if (wanted.all) callback(null, allowed)
  else callback(null, first.address, first.family)
}

/** Null when the DNS has no such name; throws when it does not answer. */
async function askDns(
  resolver: Resolver,
  name: string,
): Promise<{ addresses: LookupAddress[]; seconds: number } | null> {
  const faults: string[] = []
  const records: (LookupAddress & { ttl: number })[] = []
  const take = (family: 4 | 6) => (found: { address: string; ttl: number }[]) => {
    for (const one of found) records.push({ ...one, family })
  }
  const note = (error: unknown) => void faults.push(String((error as { code?: unknown } | null)?.code))
  const four = resolver.resolve4(name, { ttl: true }).then(take(4)).catch(note)
  const six = resolver.resolve6(name, { ttl: true }).then(take(6)).catch(note)
  await Promise.race([four, six])
  // Once there are addresses of one kind, a server that is slow about the other kind delays nobody.
  await Promise.race([Promise.all([four, six]), ...(records.length > 0 ? [sleep(otherFamilyMs)] : [])])
  if (records.length === 0) {
    if (faults.every((code) => code === 'ENOTFOUND' || code === 'ENODATA')) return null
    throw new CallError('dns')
  }
  const addresses = records.map(({ address, family }) => ({ address, family }))
  return { addresses, seconds: Math.min(...records.map(({ ttl }) => ttl)) }
}

function createSystemLookup(): (name: string) => Promise<LookupAddress[]> {
  let running = 0
  return (name) =>
    new Promise((resolve, reject) => {
      if (running >= systemLookupsMax) return reject(new CallError('dns'))
      running++
      systemLookup(name, { all: true }, (error, addresses) => {
        running--
        if (error) reject(new CallError('dns'))
        else resolve(addresses)
      })
    })
}

const hostsLookEveryMs = 2_000
const hostsBytesMax = 1024 * 1024

/** What an operator wrote by hand wins over the DNS, as it does for other programs. */
function createHostsFile(path: string): (name: string) => LookupAddress[] | undefined {
  let lookedAt = Number.NEGATIVE_INFINITY
  let stamp = ''
  let names = new Map<string, LookupAddress[]>()
  return (name) => {
    if (performance.now() - lookedAt > hostsLookEveryMs) {
      lookedAt = performance.now()
      const now = stampOf(path)
      if (now !== stamp) names = readHosts(path)
      stamp = now
    }
    return names.get(name)
  }
}

function stampOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat?.isFile() && stat.size <= hostsBytesMax ? `${stat.mtimeMs} ${stat.size} ${stat.ino}` : ''
}

function readHosts(path: string): Map<string, LookupAddress[]> {
  const names = new Map<string, LookupAddress[]>()
  if (stampOf(path) === '') return names
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const [address = '', ...aliases] = line.replace(/#.*/, '').trim().split(/\s+/)
    const family = isIP(address)
    if (family === 0) continue
    for (const alias of aliases) {
      const name = alias.toLowerCase()
      names.set(name, [...(names.get(name) ?? []), { address, family }])
    }
  }
  return names
}
