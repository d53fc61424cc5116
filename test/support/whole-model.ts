/**
 * The model of the platform: what a log may hold after a history of requests, and what a read may have seen. The log is
 * read whole, so the order of the records of a key is known; nothing here looks at an index.
 */

import type { Operation } from '#services/vectors/read/operations/operations.ts'
import type { History, Key, Read, Write } from './whole-history.ts'

/** A record of a key in the log. */
export interface Entry {
  partition: number
  offset: number
  /** Null for a deletion. */
  version: number | null
  /** The number of its operation. */
  operation: string
}

/** The records of each key, in the order of their offsets. */
export type Log = ReadonlyMap<Key, readonly Entry[]>

export interface ModelParts {
  history: History
  log: Log
  /** Reads an operation id. */
  parse(id: string): Operation
}

/** Every way in which the log or a read is not as it was promised, one line each. */
export function faultsOf(parts: ModelParts): string[] {
  const written = attribute(parts)
  return [
    ...lostWrites(written, parts),
    ...unknownRecords(written, parts),
    ...wrongOrders(written, parts),
    ...oldReads(parts),
  ]
}

interface Attributed {
  /** The writes that may have made an entry. */
  writesOf(key: Key, entry: Entry): readonly Write[]
  numberOf(write: Write): string | undefined
}

function attribute({ history, parse }: ModelParts): Attributed {
  const numbers = new Map<Write, string>()
  const byVersion = new Map<string, Write[]>()
  const byNumber = new Map<string, Write[]>()
  const openDeletes = new Map<Key, Write[]>()
  const add = <K>(map: Map<K, Write[]>, key: K, write: Write) =>
    map.set(key, [...(map.get(key) ?? []), write])
  for (const write of history.writes) {
    if (write.outcome === 'refused') continue
    if (write.operation !== undefined) {
      const { number } = parse(write.operation)
      numbers.set(write, number)
      add(byNumber, number, write)
    }
    for (const key of write.keys) {
      if (write.kind === 'upsert') add(byVersion, `${key} ${write.version}`, write)
      else if (write.operation === undefined) add(openDeletes, key, write)
    }
  }
  return {
    numberOf: (write) => numbers.get(write),
    writesOf(key, { version, operation }) {
      if (version !== null) return byVersion.get(`${key} ${version}`) ?? []
      // A deletion says only which operation it belongs to: that of an answer, or one that had none.
      return (byNumber.get(operation) ?? openDeletes.get(key) ?? []).filter(({ keys }) => keys.includes(key))
    },
  }
}

/** Acknowledged writes are in the log, where their operation ids say. */
function* lostWrites({ numberOf }: Attributed, { history, log, parse }: ModelParts): Generator<string> {
  for (const write of history.writes) {
    const number = numberOf(write)
    if (number === undefined) continue
    const { last } = parse(write.operation as string)
    const ends = new Map(last.map(({ partition, offset }) => [partition, offset]))
    for (const key of write.keys) {
      const own = (log.get(key) ?? []).filter((entry) => entry.operation === number)
      const wanted = write.kind === 'upsert' ? write.version : null
      const there = own.some(
        ({ partition, offset, version }) => version === wanted && offset <= (ends.get(partition) ?? -1),
      )
      if (!there) {
        yield `lost: ${key} has no record of the acknowledged ${describe(write)}, operation ${number} ends at ${JSON.stringify(last)}; its records of it: ${JSON.stringify(own)}`
      }
    }
  }
}

/** Every record of the log was sent. */
function* unknownRecords({ writesOf }: Attributed, { log }: ModelParts): Generator<string> {
  for (const [key, entries] of log) {
    for (const entry of entries) {
      if (writesOf(key, entry).length === 0) yield `unknown: nobody wrote ${key} ${JSON.stringify(entry)}`
    }
  }
}

/**
 * A write that was answered comes before each that began after its answer. That holds for 202, and for 503 where the
 * later one was acknowledged by the same process: appends that it gave up are refused behind its later ones. A write
 * without an answer may come at any time.
 */
function* wrongOrders({ writesOf }: Attributed, { log }: ModelParts): Generator<string> {
  for (const [key, entries] of log) {
    const before: Write[] = []
    for (const entry of entries) {
      const writes = writesOf(key, entry)
      const late = before.find(
        (earlier) => writes.length > 0 && writes.every((write) => mustPrecede(write, earlier)),
      )
      if (late) {
        const all = writes.map(describe).join(', ')
        yield `late: ${key} at ${entry.partition}/${entry.offset} is of ${all}, but behind ${describe(late)}, which began afterwards`
      }
      // Only where the entry can be of one write alone it is known when that one began.
      if (writes.length === 1) before.push(writes[0] as Write)
    }
  }
}

function mustPrecede(write: Write, later: Write): boolean {
  if (write.endedAt >= later.begunAt) return false
  if (write.outcome === 'acknowledged') return true
  return (
    write.outcome === 'unavailable' && later.outcome === 'acknowledged' && write.gateway === later.gateway
  )
}

/** A read that names an operation sees no record older than the last one through the positions of the operation. */
function* oldReads({ history, log, parse }: ModelParts): Generator<string> {
  for (const read of history.reads) {
    const fault = faultOf(read, log.get(read.key) ?? [], parse(read.after))
    if (fault !== null) yield `read: ${read.what} of ${read.key} at ${Math.round(read.begunAt)} ms ${fault}`
  }
}

function faultOf({ seen }: Read, entries: readonly Entry[], after: Operation): string | null {
  const through = new Map(after.last.map(({ partition, offset }) => [partition, offset]))
  const floor = entries.findLast(({ partition, offset }) => offset <= (through.get(partition) ?? -1))
  const fits = (entry: Entry) => {
    if (seen === 'missing') return entry.version === null
    return 'version' in seen ? entry.version === seen.version : entry.version !== seen.other
  }
  if (entries.some((entry) => entry.offset >= (floor?.offset ?? -1) && fits(entry))) return null
  // Before the first record nothing is there.
  if (floor === undefined && (seen === 'missing' || (typeof seen === 'object' && 'other' in seen)))
    return null
  return `saw ${JSON.stringify(seen)}, after operation ${after.number} the least is ${JSON.stringify(floor)}; its records: ${JSON.stringify(entries.slice(-8))}`
}

function describe({ kind, version, gateway, begunAt, endedAt, outcome }: Write): string {
  return `${kind} v${version} over ${gateway} from ${Math.round(begunAt)} to ${Math.round(endedAt)} ms (${outcome})`
}
