/** The lag of a group over time: how it is read, and what it says in words. */

import { api, type Data, take } from '../data/api.ts'
import { count, duration } from '../data/format.ts'

export type LagSample = Data['LagHistory']['samples'][number]

export function historyOf(group: string, minutes: number): Promise<Data['LagHistory']> {
  const params = { path: { group }, query: { minutes: String(minutes) } }
  return take(api.GET('/api/v1/log/groups/{group}/lag', { params }))
}

export function trendOf(values: readonly number[]): string {
  if (values.length === 0) return 'no samples yet'
  return `now ${count(values.at(-1) ?? 0)}, highest ${count(Math.max(...values))}`
}

/** Of these last samples the pace is taken. */
const windowMs = 2 * 60_000

/** Records a second by which the lag falls, over the last two minutes; null where that cannot be said yet. */
function paceOf(samples: readonly LagSample[]): number | null {
  const last = samples.at(-1)
  if (!last) return null
  const lastMs = Date.parse(last.at)
  const first = samples.find(({ at }) => lastMs - Date.parse(at) <= windowMs)
  const seconds = first ? (lastMs - Date.parse(first.at)) / 1_000 : 0
  return first && seconds >= 10 ? (first.lag - last.lag) / seconds : null
}

/** When the lag will be gone if it goes on as in the last two minutes. */
export function clearsIn(samples: readonly LagSample[], lag: number): string {
  const pace = paceOf(samples)
  if (pace === null) return 'not known yet'
  if (pace <= 0) return pace === 0 ? 'not falling' : `growing (+${Number((-pace).toPrecision(2))}/s)`
  return duration(lag / pace)
}
