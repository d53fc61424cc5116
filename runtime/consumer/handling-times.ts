/** How long handler calls took, as a Prometheus histogram that costs next to nothing per call. */

import type { MetricObjectWithValues, MetricValue, Registry } from 'prom-client'

const bounds = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60]
const name = 'flotilla_consumer_handling_seconds'

interface Series {
  labels: Record<string, string>
  /** Calls up to each bound and beyond the last, not summed up. */
  counts: number[]
  sum: number
}

/** prom-client's own histogram spends longer on a call than the runtime does; this one is asked by the registry alike. */
export class HandlingTimes {
  readonly name = name
  readonly help = 'How long handler calls took'
  readonly type = 'histogram'
  readonly aggregator = 'sum'
  readonly #series: Series[] = []

  /** The function that counts one call of a group, in seconds. */
  of(labels: Record<string, string>): (seconds: number) => void {
    const known = this.#series.find(
      (one) => one.labels.group === labels.group && one.labels.topic === labels.topic,
    )
    const series = known ?? { labels, counts: new Array<number>(bounds.length + 1).fill(0), sum: 0 }
    if (!known) this.#series.push(series)
    return (seconds) => {
      let at = 0
      while (at < bounds.length && seconds > bounds[at]!) at++
      series.counts[at]!++
      series.sum += seconds
    }
  }

  async get(): Promise<MetricObjectWithValues<MetricValue<string>>> {
    const values = this.#series.flatMap(({ labels, counts, sum }) => {
      let total = 0
      const buckets = counts.map((count, at) => {
        total += count
        return { metricName: `${name}_bucket`, labels: { le: bounds[at] ?? '+Inf', ...labels }, value: total }
      })
      const rest = [
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: total },
      ]
      return [...buckets, ...rest]
    })
    const { help, type, aggregator } = this
    return { name, help, type, aggregator, values } as never
  }

  reset(): void {
    this.#series.length = 0
  }

  register(registry: Registry): this {
    registry.registerMetric(this as never)
    return this
  }
}
