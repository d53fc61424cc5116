/** The metrics of consumer groups. Counts are plain numbers that reach Prometheus when it asks. */

import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { PartitionReading } from './types.ts'

/** Counters that the runners raise. */
export interface GroupMetrics {
  handled: number
  failed: number
  parked: number
  repeats: number
  /** One call of the handler ended after this many seconds. */
  callTook(seconds: number): void
}

interface GroupSource {
  /** The label. Counts under an earlier one stay there. */
  group(): string
  topic: string
  read(): Promise<PartitionReading[]>
}

const labels = ['group', 'topic'] as const
const partitionLabels = ['group', 'topic', 'partition'] as const
type Instruments = ReturnType<typeof createInstruments>

/** Several groups, and several starts of one, share the instruments of a registry. */
const known = new WeakMap<Registry, Instruments>()

export function registerGroup(
  registry: Registry,
  source: GroupSource,
): { metrics: GroupMetrics; unregister(): void } {
  const instruments = known.get(registry) ?? createInstruments(registry)
  known.set(registry, instruments)
  const { counters, gauges, handlingTimes, groups } = instruments
  const { topic } = source
  const metrics: GroupMetrics = {
    handled: 0,
    failed: 0,
    parked: 0,
    repeats: 0,
    callTook: (seconds) => handlingTimes.observe({ group: source.group(), topic }, seconds),
  }
  /** What the counters have been raised by. */
  const reported = { handled: 0, failed: 0, parked: 0, repeats: 0 }
  /** Partitions that have gauges, and the label that they have. */
  let shown = { group: source.group(), partitions: new Set<number>() }
  let closed = false

  async function show(): Promise<void> {
    const group = source.group()
    for (const name of Object.keys(counters) as (keyof typeof counters)[]) {
      counters[name].inc({ group, topic }, metrics[name] - reported[name])
      reported[name] = metrics[name]
    }
    const readings = closed ? [] : await source.read()
    const partitions = new Set(readings.map(({ partition }) => partition))
    for (const partition of shown.partitions) {
      if (partitions.has(partition) && shown.group === group) continue
      for (const gauge of Object.values(gauges)) gauge.remove(shown.group, topic, String(partition))
    }
    shown = { group, partitions }
    for (const reading of readings) {
      const at = { group, topic, partition: String(reading.partition) }
      const { lag, waiting, oldestAtMs } = reading
      if (lag !== null) {
        gauges.lag.set(at, lag)
        gauges.settledAhead.set(at, Math.max(0, lag - (waiting ?? lag)))
        // A record that is settled and not committed yet keeps a lag, and has no age. An unknown age clears the earlier one.
        if (lag === 0 || waiting === 0) gauges.oldest.set(at, 0)
        else if (oldestAtMs === null) gauges.oldest.remove(at)
        else gauges.oldest.set(at, Math.max(0, (Date.now() - oldestAtMs) / 1_000))
      }
      gauges.inFlight.set(at, reading.inFlight)
      gauges.window.set(at, reading.window)
      gauges.stopped.set(at, reading.stopped ? 1 : 0)
    }
    if (closed) groups.delete(show)
  }

  // Shown from the beginning, like the counts.
  handlingTimes.zero({ group: source.group(), topic })
  groups.add(show)
  return {
    metrics,
    unregister() {
      closed = true
    },
  }
}

/** What the groups of a registry share; each of them shows its own figures in it. */
function createInstruments(registry: Registry) {
  /** Each shows the figures of one group. */
  const groups = new Set<() => Promise<void>>()
  const registers = [registry]
  let collecting: Promise<void> | undefined
  // Every instrument is asked on its own, all in one turn: the first one reads for all of them.
  function collect(): Promise<void> {
    collecting ??= showAll().finally(() => {
      collecting = undefined
    })
    return collecting
  }
  async function showAll(): Promise<void> {
    for (const show of groups) await show()
  }
  const options = (name: string, help: string) => ({ name: `flotilla_consumer_${name}`, help, registers })
  const counter = (name: string, help: string) =>
    new Counter({ ...options(name, help), labelNames: labels, collect })
  const gauge = (name: string, help: string) =>
    new Gauge({ ...options(name, help), labelNames: partitionLabels, collect })
  const counters = {
    handled: counter('handled_records_total', 'Records that were handled'),
    failed: counter('failed_tries_total', 'Tries of a record or a batch that failed'),
    parked: counter('parked_records_total', 'Records that went into the dead letters'),
    repeats: counter('dropped_repeats_total', 'Second copies of an event that were dropped'),
  }
  const gauges = {
    lag: gauge('lag_records', 'Offsets that are not committed yet'),
    oldest: gauge('oldest_unread_seconds', 'Age of the oldest record that is not settled'),
    settledAhead: gauge('settled_ahead_records', 'Records beyond the committed position that are settled'),
    inFlight: gauge('in_flight_calls', 'Handler calls that run'),
    window: gauge('window_records', 'Offsets between the watermark and the last record taken'),
    stopped: gauge('stopped_partition', '1 when the partition is stopped and needs an operator'),
  }
  const handlingTimes = new Histogram({
    ...options('handling_duration_seconds', 'How long handler calls took'),
    labelNames: labels,
    buckets: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60],
  })
  return { counters, gauges, handlingTimes, groups }
}
