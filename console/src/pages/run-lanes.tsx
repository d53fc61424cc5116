/** A picture of several runs: a lane for each, a dot for each of its events; times in which nothing happens are folded. */

import { momentOf, plural } from '../data/format.ts'
import type { Run } from './runs.tsx'
import { isFault, type RunEvent } from './use-run-events.ts'

const width = 720
const laneHeight = 26
const labelWidth = 96
/** A longer silence takes as much room as this. */
const silenceMsMax = 5_000
const barWidthMin = 4

export function Lanes({ runs, events }: { runs: readonly Run[]; events: readonly RunEvent[] }) {
  const now = Date.now()
  const spans = runs.map((run) => ({
    run,
    from: Date.parse(run.startedAt ?? run.createdAt),
    to: run.endedAt === null ? now : Date.parse(run.endedAt),
  }))
  // One without a time is in the list below only.
  const dots = events.flatMap((event) => {
    const date = momentOf(event.timestamp * 1_000)
    return date === null ? [] : { event, at: date.getTime() }
  })
  const place = placing([...spans.flatMap(({ from, to }) => [from, to]), ...dots.map(({ at }) => at)])
  const height = spans.length * laneHeight
  const label = spans.map(({ run }) => `${run.appName} ${run.status}`).join(', ')
  return (
    <div className="chart">
      <svg
        className="lanes"
        role="img"
        aria-label={`${plural(runs.length, 'run')}: ${label}. The events are listed below.`}
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        style={{ maxWidth: '100%' }}
      >
        <title>{label}</title>
        {spans.map(({ run, from, to }, lane) => (
          <g key={run.runId} transform={`translate(0 ${lane * laneHeight})`}>
            <text x={0} y={17}>
              {run.appName}
            </text>
            <rect
              className={run.status}
              x={place(from)}
              y={9}
              width={Math.max(barWidthMin, place(to) - place(from))}
              height={8}
            />
            {dots
              .filter(({ event }) => event.invocationId === run.runId)
              .map(({ event, at }) => (
                <circle
                  key={event.number}
                  className={isFault(event) ? 'failed' : undefined}
                  cx={place(at)}
                  cy={13}
                  r={4}
                />
              ))}
          </g>
        ))}
      </svg>
    </div>
  )
}

/** From a time to its place from left to right. */
function placing(times: readonly number[]): (time: number) => number {
  const sorted = [...new Set(times)].sort((a, b) => a - b)
  const places = new Map<number, number>()
  let at = 0
  for (const [index, time] of sorted.entries()) {
    at += Math.min(index === 0 ? 0 : time - (sorted[index - 1] ?? time), silenceMsMax)
    places.set(time, at)
  }
  const scale = (width - labelWidth - 8) / Math.max(at, 1)
  return (time) => labelWidth + (places.get(time) ?? 0) * scale
}
