/** The promises of a load, as rows of the bench: nothing lost, order kept, memory that does not grow. */

import { type BenchRow, quantile } from '../bench.ts'
import type { Kind } from './mix.ts'
import { behind } from './observations.ts'
import type { PartEnd, TrialResult } from './trial.ts'

const mb = 1e6
/** Memory for a point of an embedded platform: docs/sizing.md. */
const bytesOfPoint = 17_000
/** Growth of memory by the end, in percent. */
const growthBar = { max: 5 }
/** Share of refused answers, in percent; a slow machine may let a time limit pass. */
const errorBar = { max: 0.1 }
/** Records that wait are worked off within this after the load. */
const quietBar = { max: 60 }

export function fleetRows(trial: TrialResult): BenchRow[] {
  return [...answerRows(trial), ...promiseRows(trial), ...webhookRows(trial), ...memoryRows(trial)].map(
    (row) => ({
      ...row,
      what: `${trial.stack}: ${row.what}`,
    }),
  )
}

function answerRows({ load, observations, end: { quiet } }: TrialResult): BenchRow[] {
  const errors = load.errors.reduce((sum, { count }) => sum + count, 0)
  const searches = latenciesOf(load, 'search')
  return [
    {
      what: 'requests that were not answered well',
      unit: '%',
      measured: (errors / load.requests) * 100,
      bar: errorBar,
      note: `${errors} of ${load.requests.toLocaleString('en')}`,
    },
    ...(searches.length > 0
      ? [{ what: 'p95 of a search', unit: 'ms', measured: quantile(searches, 0.95) }]
      : []),
    {
      what: 'after the load: nothing waits in the log any more',
      unit: 's',
      measured: quiet.left === 0 ? quiet.seconds : Number.POSITIVE_INFINITY,
      bar: quietBar,
      note: `at most ${Math.max(...observations.map(behind)).toLocaleString('en')} records waited meanwhile`,
    },
  ]
}

function promiseRows({ promises, missing }: TrialResult): BenchRow[] {
  const names = { points: 'points', notes: 'notes', goals: 'goals' } as const
  const rows = Object.entries(names).map(([name, shown]): BenchRow => {
    const { checked, lost, first } = promises[name as keyof typeof names]
    const note = `of ${checked.toLocaleString('en')}${first === undefined ? '' : `; ${first}`}`
    return { what: `acknowledged ${shown} that are lost`, unit: shown, measured: lost, bar: { max: 0 }, note }
  })
  return [
    ...rows,
    {
      what: 'runs that did not end, or whose end was not reported exactly once',
      unit: 'runs',
      measured: promises.runs.lost + missing.notOnce,
      bar: { max: 0 },
      note: `of ${promises.runs.checked.toLocaleString('en')}${promises.runs.first ?? missing.first ?? ''}`,
    },
  ]
}

function webhookRows({ delivered, missing }: TrialResult): BenchRow[] {
  const all = Object.values(delivered)
  const sum = (of: 'taken' | 'late' | 'gaps' | 'repeated' | 'failed') =>
    all.reduce((total, one) => total + one[of], 0)
  const delays = all.flatMap((one) => one.delays)
  return [
    {
      what: 'fired events that a target did not get',
      unit: 'events',
      measured: missing.undelivered,
      bar: { max: 0 },
      note: `of ${missing.fired.toLocaleString('en')}`,
    },
    {
      what: 'webhooks behind a later one, or behind a gap',
      unit: 'events',
      measured: sum('late') + sum('gaps'),
      bar: { max: 0 },
      note: `of ${sum('taken').toLocaleString('en')}; ${sum('repeated')} came twice, ${sum('failed')} were refused at first on purpose`,
    },
    ...(delays.length > 0
      ? [{ what: 'from firing to arrival, p95', unit: 'ms', measured: quantile(delays, 0.95) }]
      : []),
  ]
}

/**
 * The engines are shown and not judged: caches of pages and of a JVM grow into what they are allowed. Embedded, the
 * platform holds the points itself: what they take is no growth of it.
 */
function memoryRows({ stack, settled, end, settledAfterMinutes, minutes }: TrialResult): BenchRow[] {
  const span = `growth from minute ${Number(settledAfterMinutes.toFixed(1))} to ${minutes}`
  const heap = growth(heapBytes(settled), heapBytes(end))
  const points = stack === 'embedded' ? end.rested.points - settled.rested.points : 0
  const rows = Object.keys(end.rested.memory)
    .filter((name) => end.rested.memory[name]! > 0)
    .map((name): BenchRow => {
      const judged = name === 'platform'
      const less = judged ? Math.max(0, points) * bytesOfPoint : 0
      const { percent, note } = growth(settled.rested.memory[name]!, end.rested.memory[name]! - less)
      return {
        what: `memory of ${name}, ${span}`,
        unit: '%',
        measured: percent,
        ...(judged ? { bar: growthBar } : {}),
        note:
          less > 0
            ? `${note}, ${Math.round(less / mb)} MB for ${points.toLocaleString('en')} new points left out`
            : note,
      }
    })
  const live = { what: `live objects of the platform's threads, ${span}`, unit: '%', measured: heap.percent }
  return [{ ...live, bar: growthBar, note: heap.note }, ...rows]
}

function heapBytes({ heaps }: PartEnd): number {
  return heaps.reduce((sum, { bytes }) => sum + bytes, 0)
}

function growth(from: number, to: number): { percent: number; note: string } {
  return {
    percent: from > 0 ? (to / from - 1) * 100 : 0,
    note: `${Math.round(from / mb)} MB, then ${Math.round(to / mb)} MB`,
  }
}

export function latenciesOf({ minutes }: TrialResult['load'], kind: Kind): number[] {
  return minutes.filter((one) => one.kind === kind).flatMap(({ latencies }) => latencies)
}
