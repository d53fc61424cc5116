/** Checks one parsed line, and makes a record with its searchable fields of it. */

import type { SearchRecord } from './contract.ts'
import { isRawJson } from './exact-json.ts'

/** Longest id, in characters. */
const idLengthMax = 512
/** Deepest nesting of values: readers of a record walk it level by level. */
export const depthMax = 128

/** The record, or in one sentence why the value is no record. */
export function recordOf(value: unknown): SearchRecord | string {
  if (value === null || typeof value !== 'object' || Array.isArray(value) || isRawJson(value)) {
    return `not a JSON object but ${kindOf(value)}`
  }
  const source = value as Record<string, unknown>
  for (const field of ['id', 'title', 'slug', 'path', 'mind_path', 'body']) {
    const given = own(source, field)
    if (given !== null && typeof given !== 'string') return `${field} must be a string, not ${kindOf(given)}`
  }
  const id = own(source, 'id') as string | null
  if (id !== null && !isId(id)) return `id must have 1 to ${idLengthMax} characters and no lone surrogates`
  const fault = faultOfValues(source)
  if (fault !== null) return fault
  return {
    id,
    title: textOf(source, 'title'),
    slug: textOf(source, 'slug'),
    path: textOf(source, 'path') || textOf(source, 'mind_path'),
    body: textOf(source, 'body'),
    updatedAtMs: timeOf(own(source, 'updated_at')),
    source,
  }
}

/** Looks at names and values of every level. The index keeps texts as UTF-8, where a lone surrogate would be U+FFFD. */
function faultOfValues(root: object): string | null {
  let level: object[] = [root]
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > depthMax) return `nested deeper than ${depthMax} levels`
    const next: object[] = []
    for (const item of level) {
      for (const key in item) {
        const child: unknown = item[key as keyof typeof item]
        if (!key.isWellFormed()) return 'the name of a field must have no lone surrogates'
        if (typeof child === 'object' && child !== null) next.push(child)
        else if (typeof child === 'string' && !child.isWellFormed()) {
          return `${depth === 1 ? key.slice(0, 40) : 'a value'} must have no lone surrogates`
        }
      }
    }
    level = next
  }
  return null
}

/** The system's message about a file, without its address: "no such file or directory". */
export function describeSystemFault(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException
  const said: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file',
    EACCES: 'not permitted',
    EPERM: 'not permitted',
    EISDIR: 'it is a directory',
    ENOSPC: 'the disk is full',
  }
  return said[code ?? ''] ?? code ?? 'it failed'
}

function own(source: Record<string, unknown>, field: string): unknown {
  return Object.hasOwn(source, field) ? (source[field] ?? null) : null
}

function textOf(source: Record<string, unknown>, field: string): string {
  return (own(source, field) as string | null) ?? ''
}

function isId(id: string): boolean {
  // Characters beyond U+FFFF count once.
  if (id === '' || id.length > 2 * idLengthMax || !id.isWellFormed()) return false
  return id.length <= idLengthMax || [...id].length <= idLengthMax
}

const isoTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/

/** 0 where it is no ISO 8601 time. One without a zone is UTC: the order must not depend on where an index is built. */
function timeOf(value: unknown): number {
  const match = typeof value === 'string' ? isoTime.exec(value) : null
  if (!match) return 0
  const time = Date.parse(match[1] !== undefined && match[4] === undefined ? `${match[0]}Z` : match[0])
  return Number.isNaN(time) ? 0 : time
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (isRawJson(value)) return 'a number'
  return value && typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
