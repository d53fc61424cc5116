/** The lag of groups over time: how it is read, and what it says in words. */

import { api, type Data, take } from '../data/api.ts'
import { count, duration } from '../data/format.ts'
import { type Read, useRead } from '../data/query.ts'

export function historyOf(group: string, minutes: number): Promise<Data['LagHistory']> {
  const params = { path: { group }, query: { minutes: String(minutes) } }
  return take(api.GET('/api/v1/log/groups/{group}/lag', { params }))
}

/** The curves of all groups at once, thinned for small pictures. */
export function useCurves(): Read<Data['LagCurves']> {
  return useRead(['groups', 'curves'], () => take(api.GET('/api/v1/log/lag')), 30_000)
}

export function trendOf(values: readonly number[]): string {
  if (values.length === 0) return 'no samples yet'
  return `now ${count(values.at(-1) ?? 0)}, highest ${count(Math.max(...values))}`
}

type Pace = Pick<Data['ReaderGroup'], 'lag' | 'behind_s' | 'in_per_s' | 'out_per_s' | 'clears_in_s'>

/** When nothing will wait if it goes on like this. */
export function clearsIn({ lag, in_per_s, out_per_s, clears_in_s }: Pace): string {
  if (lag === 0) return '–'
  if (clears_in_s !== null) return duration(clears_in_s)
  if (in_per_s === null || out_per_s === null) return 'not known yet'
  const growth = in_per_s - out_per_s
  return growth > 0 ? `growing (+${Number(growth.toPrecision(2))}/s)` : 'not falling'
}

/** How long the oldest record has waited. */
export function behindBy({ lag, behind_s }: Pace): string {
  if (lag === 0) return '–'
  return behind_s === null ? 'not known yet' : duration(behind_s)
}

export function perSecond(rate: number | null): string {
  return rate === null ? '–' : count(rate)
}
