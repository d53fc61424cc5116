/** A small curve without axes, described in words. */

const width = 96
const height = 24

export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  if (values.length < 2) return <span className="dim">–</span>
  const highest = Math.max(...values, 1)
  const step = width / (values.length - 1)
  const points = values
    .map(
      (value, at) =>
        `${(at * step).toFixed(1)},${(height - 2 - (value / highest) * (height - 4)).toFixed(1)}`,
    )
    .join(' ')
  return (
    <svg
      className="sparkline"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
    >
      <title>{label}</title>
      <polyline points={points} />
    </svg>
  )
}
