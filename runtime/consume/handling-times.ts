/**
 * How long calls of handlers took, as a histogram of Prometheus. Calls are counted here and shown when it asks:
 * prom-client's own histogram puts the labels together for each call, which takes longer than all else of counting it.
 */

import { Gauge, type MetricObjectWithValues, type MetricValueWithName, type Registry } from 'prom-client'

type Label = 'group' | 'topic'
/** What prom-client asks a metric for. */
type Shown = MetricObjectWithValues<MetricValueWithName<Label | 'le'>>

const name = 'flotilla_consumer_handling_duration_seconds'
const help = 'How long handler calls took'
const boundsSeconds = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60]

/** The times of one group on one topic. */
class GroupTimes {
  readonly #labels: Record<Label, string>
  /** By bucket: calls that took longer than its bound before it. The last one has no bound. */
  readonly #counts = new Array<number>(boundsSeconds.length + 1).fill(0)
  #sum = 0

  constructor(labels: Record<Label, string>) {
    this.#labels = labels
  }

  add(seconds: number): void {
    let bucket = 0
    while (bucket < boundsSeconds.length && seconds > boundsSeconds[bucket]!) bucket++
    this.#counts[bucket]!++
    this.#sum += seconds
  }

  values(): Shown['values'] {
    let count = 0
    const buckets = this.#counts.map((calls, bucket) => {
      count += calls
      const le = boundsSeconds[bucket] ?? '+Inf'
      return { metricName: `${name}_bucket`, labels: { le, ...this.#labels }, value: count }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: this.#labels, value: this.#sum },
      { metricName: `${name}_count`, labels: this.#labels, value: count },
    ]
  }
}

/** The metric: of prom-client's own, a gauge is the one that says nothing of itself. */
export class HandlingTimes extends Gauge<Label | 'le'> {
  readonly #groups = new Map<string, GroupTimes>()

  constructor(registry: Registry) {
    super({ name, help, registers: [registry] })
  }

  of(group: string, topic: string): GroupTimes {
    const key = JSON.stringify([group, topic])
    let times = this.#groups.get(key)
    if (!times) {
      times = new GroupTimes({ group, topic })
      this.#groups.set(key, times)
    }
    return times
  }

  override async get(): Promise<Shown> {
    const values = [...this.#groups.values()].flatMap((times) => times.values())
    // The type of the library names a number for what is a text in all of its code.
    return { ...(await super.get()), type: 'histogram' as unknown as Shown['type'], values }
  }
}
