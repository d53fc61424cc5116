/** The attempts of the last hour as bars, minute by minute: delivered, to be repeated, given up. */

import { api, type Data, take } from '../data/api.ts'
import { count } from '../data/format.ts'
import { useRead } from '../data/query.ts'

export type Bars = Omit<Data['WebhookBars']['targets'][number], 'target'>

/** The bars of all targets, by name; a target without an attempt is missing. */
export function useBars(): ReadonlyMap<string, Bars> | undefined {
  const { data } = useRead(['targets', 'bars'], () => take(api.GET('/api/v1/webhooks/attempts')), 10_000)
  return data && new Map(data.targets.map(({ target, ...bars }) => [target, bars]))
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, one) => sum + one, 0)

export function saidOf({ delivered, retried, dead_letters }: Bars): string {
  return `${count(sumOf(delivered))} delivered, ${count(sumOf(retried))} to be retried, ${count(sumOf(dead_letters))} given up`
}

const kinds = [
  ['delivered', undefined],
  ['retried', 'retry'],
  ['dead_letters', 'dead'],
] as const

export function AttemptBars({
  of: bars,
  label,
  width,
  height,
}: {
  of: Bars
  label: string
  width: number
  height: number
}) {
  const minutes = bars.delivered.length
  const totals = bars.delivered.map((_, at) => kinds.reduce((sum, [kind]) => sum + (bars[kind][at] ?? 0), 0))
  const unit = height / Math.max(1, ...totals)
  const step = width / minutes
  const rects = totals.flatMap((total, at) => {
    if (total === 0) return []
    let top = height
    const x = at * step
    return kinds.flatMap(([kind, className]) => {
      const size = (bars[kind][at] ?? 0) * unit
      if (size === 0) return []
      top -= size
      return [
        <rect key={`${x} ${kind}`} className={className} x={x} y={top} width={step * 0.8} height={size} />,
      ]
    })
  })
  return (
    <svg
      className="bars"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      style={{ maxWidth: '100%' }}
    >
      <title>{label}</title>
      {rects}
    </svg>
  )
}
