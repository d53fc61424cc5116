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
  /** The label. What was counted under an earlier one stays there. */
  group(): string
  topic: string
  read(): Promise<PartitionReading[]>
}

const labels = ['group', 'topic'] as const
const partitionLabels = ['group', 'topic', 'partition'] as const
type CountName = 'handled' | 'failed' | 'parked' | 'repeats'

interface Entry {
  source: GroupSource
  counts: GroupMetrics
  /** What the counters have been raised by. */
  reported: Record<CountName, number>
  /** Partitions that have gauges, and the label that they have. */
  partitions: Set<number>
  group: string
  closed: boolean
}

interface Instruments {
  entries: Set<Entry>
  handlingTimes: Histogram<'group' | 'topic'>
}

type GroupCounters = Record<CountName, Counter<'group' | 'topic'>>
type PartitionGauges = Record<
  'lag' | 'oldest' | 'settledAhead' | 'inFlight' | 'window' | 'stopped',
  Gauge<'group' | 'topic' | 'partition'>
>

/** Several groups, and several starts of one, share the instruments of a registry. */
const known = new WeakMap<Registry, Instruments>()

export function registerGroup(
  registry: Registry,
  source: GroupSource,
): { metrics: GroupMetrics; unregister(): void } {
  let instruments = known.get(registry)
  if (!instruments) {
    instruments = createInstruments(registry)
    known.set(registry, instruments)
  }
  const { entries, handlingTimes } = instruments
  const { topic } = source
  const group = source.group()
  // Shown from the beginning, like the counts.
  handlingTimes.zero({ group, topic })
  const metrics: GroupMetrics = {
    handled: 0,
    failed: 0,
    parked: 0,
    repeats: 0,
    callTook: (seconds) => handlingTimes.observe({ group: source.group(), topic }, seconds),
  }
  const entry: Entry = {
    source,
    counts: metrics,
    reported: { handled: 0, failed: 0, parked: 0, repeats: 0 },
    partitions: new Set(),
    group,
    closed: false,
  }
  entries.add(entry)
  return {
    metrics,
    unregister() {
      entry.closed = true
    },
  }
}

function createInstruments(registry: Registry): Instruments {
  const entries = new Set<Entry>()
  const registers = [registry]
  let collecting: Promise<void> | undefined
  // Every instrument is asked on its own, all in one turn: the first one reads for all of them.
  function collect(): Promise<void> {
    collecting ??= collectAll(entries, counters, gauges).finally(() => {
      collecting = undefined
    })
    return collecting
  }
  function counter(name: string, help: string) {
    const options = { name: `flotilla_consumer_${name}`, help, labelNames: labels, registers, collect }
    return new Counter(options)
  }
  function gauge(name: string, help: string) {
    const options = {
      name: `flotilla_consumer_${name}`,
      help,
      labelNames: partitionLabels,
      registers,
      collect,
    }
    return new Gauge(options)
  }
  const counters: GroupCounters = {
    handled: counter('handled_records_total', 'Records that were handled'),
    failed: counter('failed_tries_total', 'Tries of a record or a batch that failed'),
    parked: counter('parked_records_total', 'Records that went into the dead letters'),
    repeats: counter('dropped_repeats_total', 'Second copies of an event that were dropped'),
  }
  const gauges: PartitionGauges = {
    lag: gauge('lag_records', 'Offsets that are not committed yet'),
    oldest: gauge('oldest_unread_seconds', 'Age of the oldest record that is not settled'),
    settledAhead: gauge('settled_ahead_records', 'Records beyond the committed position that are settled'),
    inFlight: gauge('in_flight_calls', 'Handler calls that run'),
    window: gauge('window_records', 'Offsets between the watermark and the last record taken'),
    stopped: gauge('stopped_partition', '1 when the partition is stopped and needs an operator'),
  }
  const handlingTimes = new Histogram({
    name: 'flotilla_consumer_handling_duration_seconds',
    help: 'How long handler calls took',
    labelNames: labels,
    buckets: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60],
    registers,
  })
  return { entries, handlingTimes }
}

async function collectAll(
  entries: Set<Entry>,
  counters: GroupCounters,
  gauges: PartitionGauges,
): Promise<void> {
  for (const entry of entries) {
    const { topic } = entry.source
    const group = entry.source.group()
    for (const name of Object.keys(counters) as CountName[]) {
      counters[name].inc({ group, topic }, entry.counts[name] - entry.reported[name])
      entry.reported[name] = entry.counts[name]
    }
    const readings = entry.closed ? [] : await entry.source.read()
    show(entry, readings, gauges)
    if (entry.closed) entries.delete(entry)
  }
}

function show(entry: Entry, readings: PartitionReading[], gauges: PartitionGauges): void {
  const { topic } = entry.source
  const group = entry.source.group()
  const present = new Set(readings.map((reading) => reading.partition))
  for (const partition of entry.partitions) {
    if (present.has(partition) && entry.group === group) continue
    for (const gauge of Object.values(gauges)) gauge.remove(entry.group, topic, String(partition))
  }
  entry.partitions = present
  entry.group = group
  for (const reading of readings) {
    const at = { group, topic, partition: String(reading.partition) }
    showWaiting(at, reading, gauges)
    gauges.inFlight.set(at, reading.inFlight)
    gauges.window.set(at, reading.window)
    gauges.stopped.set(at, reading.stopped ? 1 : 0)
  }
}

/** What is not known keeps no earlier figure. */
function showWaiting(
  at: { group: string; topic: string; partition: string },
  { lag, waiting, oldestAtMs }: PartitionReading,
  gauges: PartitionGauges,
): void {
  if (lag === null) return
  gauges.lag.set(at, lag)
  gauges.settledAhead.set(at, Math.max(0, lag - (waiting ?? lag)))
  // A record that is settled and not committed yet keeps a lag, and has no age.
  if (lag === 0 || waiting === 0) gauges.oldest.set(at, 0)
  else if (oldestAtMs === null) gauges.oldest.remove(at)
  else gauges.oldest.set(at, Math.max(0, (Date.now() - oldestAtMs) / 1_000))
}
