/** The contents of the log, the vector index and the mirror of a quiet platform, and their differences. */

import { isDeepStrictEqual } from 'node:util'
import type { Client } from '#client/client.ts'
import { collections } from '#engines/vectors/collections.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { operationHeader } from '#services/vectors/write/failures.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { recordsOf } from './log-reading.ts'
import type { Entry, Log } from './whole-model.ts'

export interface Held {
  payload: unknown
  vector: ArrayLike<number>
}

/** The points of an index by `collection/id`. */
export type Points = ReadonlyMap<string, Held>

export interface LogState {
  /** All records of the keys that clients write. */
  log: Log
  /** The last value of each key, audit notes included. */
  last: Points
  records: number
}

const pageMax = 250
const auditNote = 'fleet_notes/audit-'
/** Qdrant keeps vectors at length one. */
const vectorSlack = 1e-5

export async function readLog(platform: Platform): Promise<LogState> {
  const records = await recordsOf(platform, vectorsCommands)
  const log = new Map<string, Entry[]>()
  const last = new Map<string, Held>()
  for (const { key, value, headers, partition, offset } of records) {
    const payload = value && JSON.parse(value.payload)
    if (value) last.set(key, { payload, vector: floatsOf(value.vector) })
    else last.delete(key)
    if (key.startsWith(auditNote)) continue
    const entries = log.get(key) ?? []
    entries.push({
      partition,
      offset,
      version: payload?.version ?? null,
      operation: headers[operationHeader] ?? '',
    })
    log.set(key, entries)
  }
  return { log, last, records: records.length }
}

function floatsOf(bytes: Buffer): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer)
}

/** Through the API, point by point of every collection. */
export async function readIndex(client: Client): Promise<Points> {
  const points = new Map<string, Held>()
  for (const collection of collections) {
    const pages = client.scrollAll({ collection, limit: pageMax, withPayload: true, withVector: true })
    for await (const { id, payload, vector } of pages) {
      points.set(`${collection}/${id}`, { payload, vector: vector ?? [] })
    }
  }
  return points
}

/** From the tables that search-pg reads. */
export async function readMirror({ engines }: Platform): Promise<Points> {
  const { rows } = await engines.mirror.write.query<{
    key: string
    payload: unknown
    vector: string
  }>(
    `select collection || '/' || id as key, payload, embedding::text as vector
     from vectors.embeddings full join vectors.metadata using (collection, id)`,
    [],
  )
  return new Map(
    rows.map(({ key, payload, vector }) => [key, { payload, vector: JSON.parse(vector) as number[] }]),
  )
}

/** Why an index does not hold exactly what the log was left with, one line for each key. */
export function differences(name: string, last: Points, index: Points): string[] {
  const faults: string[] = []
  for (const [key, wanted] of last) {
    const held = index.get(key)
    if (held === undefined) faults.push(`${name} misses ${key}, which the log was left with`)
    else if (!isDeepStrictEqual(held.payload, wanted.payload)) {
      faults.push(
        `${name} holds ${JSON.stringify(held.payload)} at ${key}, the log ${JSON.stringify(wanted.payload)}`,
      )
    } else if (!isSameVector(held.vector, wanted.vector)) faults.push(`${name} has another vector at ${key}`)
  }
  for (const [key, held] of index) {
    if (!last.has(key))
      faults.push(`${name} holds ${JSON.stringify(held.payload)} at ${key}, the log nothing`)
  }
  return faults
}

export function withoutAuditNotes(points: Points): Points {
  return new Map([...points].filter(([key]) => !key.startsWith(auditNote)))
}

/** The points at the keys of `of` and at all others that are no audit notes: reading makes new notes. */
export function withoutNewNotes(points: Points, of: Points): Points {
  return new Map([...points].filter(([key]) => of.has(key) || !key.startsWith(auditNote)))
}

/** Up to a positive factor. */
function isSameVector(one: ArrayLike<number>, other: ArrayLike<number>): boolean {
  const norm = (vector: ArrayLike<number>) => Math.hypot(...Array.from(vector))
  const factor = norm(other) / norm(one)
  if (one.length !== other.length || !(factor > 0)) return false
  return Array.from(one).every((x, n) => Math.abs(x * factor - (other[n] as number)) <= vectorSlack)
}
