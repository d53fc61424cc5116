/** A curve over time with axes, a sentence that says it in words, and the same as a table. */

import { useEffect, useRef, useState } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { count, localTime, momentOf } from '../data/format.ts'

interface ChartProps {
  label: string
  /** The newest last. */
  samples: readonly { at: string; value: number }[]
}

const height = 220

export default function Chart({ label, samples }: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const [isTable, setTable] = useState(false)
  useEffect(() => {
    const element = box.current
    if (!element) return
    const made = new uPlot(optionsFor(element), [[], []], element)
    plot.current = made
    const watching = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    watching.observe(element)
    return () => {
      watching.disconnect()
      made.destroy()
    }
  }, [])
  useEffect(() => {
    const drawn = samples.flatMap(({ at, value }) => {
      const date = momentOf(at)
      return date === null ? [] : { atS: date.getTime() / 1_000, value }
    })
    plot.current?.setData([drawn.map(({ atS }) => atS), drawn.map(({ value }) => value)])
  }, [samples])
  return (
    <>
      <div ref={box} className="chart" role="img" aria-label={label} />
      <p className="dim">
        {label}{' '}
        <button type="button" className="quiet" aria-expanded={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? 'Hide the table' : 'Show as a table'}
        </button>
      </p>
      {isTable && <Samples samples={samples} />}
    </>
  )
}

function Samples({ samples }: Pick<ChartProps, 'samples'>) {
  // A row each minute is enough to read.
  const step = Math.max(1, Math.round(samples.length / 60))
  const shown = samples.filter((_, at) => at % step === 0).reverse()
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Time</th>
          <th scope="col" className="numeric">
            Records
          </th>
        </tr>
      </thead>
      <tbody>
        {shown.map(({ at, value }) => (
          <tr key={at}>
            <th scope="row">{localTime(at)}</th>
            <td className="numeric">{count(value)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function optionsFor(element: HTMLElement): uPlot.Options {
  const style = getComputedStyle(document.documentElement)
  const color = (name: string) => style.getPropertyValue(name).trim()
  const axis = {
    stroke: color('--dim'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { stroke: color('--line'), width: 1 },
  }
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(10, high * 1.1)] } },
    axes: [axis, { ...axis, size: 64, values: (_plot, splits) => splits.map(count) }],
    series: [{}, { stroke: color('--accent'), width: 1.5, points: { show: false } }],
  }
}
