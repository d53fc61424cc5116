/**
 * Makes the mirror's row of a point: known payload keys become columns where their type fits, the payload keeps all.
 */

import type { MirrorRow } from '#engines/relational/mirror/port.ts'
import type { Payload, PointOperation } from '#engines/vectors/port.ts'

/** Deeper than anything a gateway accepts; PostgreSQL fails somewhere beyond a thousand levels. */
const depthMax = 128

export function rowOf({ vector, payload }: Extract<PointOperation, { kind: 'upsert' }>): MirrorRow {
  const clean = cleanValue(payload, 1) as Payload
  return {
    embedding: vector,
    title: textOf(clean.title),
    status: textOf(clean.status),
    tags: Array.isArray(clean.tags) ? clean.tags.filter((tag) => typeof tag === 'string') : null,
    mindPath: textOf(clean.mind_path),
    updatedAt: timestampOf(clean.updated_at),
    payload: clean,
  }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

/** ISO 8601 with a four-digit year; without an offset it is UTC. */
const timestamp = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)\s*(Z|[+-]\d\d(?::?\d\d)?)?)?$/i

function timestampOf(value: unknown): Date | null {
  const match = typeof value === 'string' ? timestamp.exec(value.trim()) : null
  if (!match) return null
  const [, day, time = '00:00', offset = 'Z'] = match
  const parsed = new Date(`${day}T${time.replace(',', '.')}${offsetText(offset)}`)
  return Number.isNaN(parsed.getTime()) || !isDay(day as string) ? null : parsed
}

/** A parser may read 30 February as a day in March. */
function isDay(day: string): boolean {
  const midnight = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day)
}

function offsetText(offset: string): string {
  const digits = /^([+-]\d\d):?(\d\d)?$/.exec(offset)
  return digits ? `${digits[1]}:${digits[2] ?? '00'}` : 'Z'
}

/** PostgreSQL's text and jsonb hold neither NUL nor half a surrogate pair. */
function cleanText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd')
}

function cleanValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return cleanText(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth > depthMax) return null
  if (Array.isArray(value)) return value.map((item) => cleanValue(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [cleanText(key), cleanValue(item, depth + 1)]),
  )
}
