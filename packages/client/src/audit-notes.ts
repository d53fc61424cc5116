/** Leaves the platform's audit notes out of searches for what people and agents wrote. */

import type { Filter, FilterCondition } from './filter.ts'

/**
 * What the platform makes audit notes of: the payload of each names one of them as `operation`. That is the narrowest mark that a
 * filter can name: the tags of audit notes (`auth`, `vector`) may well be those of somebody's own point.
 */
export const auditedOperations = [
  'handshake',
  'verify',
  'upsert',
  'payload',
  'search',
  'search-pg',
  'scroll',
  'count',
  'get',
  'delete',
  // In a summary of refused requests that were not all of one operation.
  'several',
] as const

/**
 * The filter of a search in `collection` without audit notes, which `fleet_notes` alone has. `filter` as it is when it
 * asks for them: by the tag `auth` or `vector`, or by an `operation`.
 */
export function withoutAuditNotes(collection: string, filter?: Filter): Filter | undefined {
  if (collection !== 'fleet_notes' || (filter && asksForAuditNotes(filter))) return filter
  const audited = auditedOperations.map((value) => ({ key: 'operation', match: { value } }))
  return { ...filter, must_not: [...(filter?.must_not ?? []), ...audited] }
}

function asksForAuditNotes(condition: FilterCondition): boolean {
  if ('is_empty' in condition) return false
  if (!('key' in condition)) {
    return [...(condition.must ?? []), ...(condition.should ?? [])].some(asksForAuditNotes)
  }
  if (condition.key === 'operation') return true
  if (condition.key !== 'tags' || !('match' in condition)) return false
  const { match } = condition
  const named = 'value' in match ? [match.value] : 'any' in match ? match.any : []
  return named.some((value) => value === 'auth' || value === 'vector')
}
