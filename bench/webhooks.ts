/** Measures webhooks from the log to the sink next to the same POSTs sent by undici alone, and to other relays. */

import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { openCaller } from './load.ts'
import { kafkaFloorDrain } from './webhook-kafka-floor.ts'
import {
  backoffMs,
  type Driver,
  floorDrain,
  floorPaced,
  openWebhookStage,
  rateOf,
  type Sample,
  sampleOf,
  type WebhookStage,
  well,
} from './webhook-stage.ts'

const sinkCount = 4
/** For courier and floor alike. Many short rounds, because the speed of one machine changes from second to second. */
const drainedPerSink = 8_000
const drainRounds = 13
const perSecond = 20
const pacedCount = 200
const pacedRounds = 3
const pacedTargets = 3
const firedCount = 2_000
const firingClients = 8
const failEvery = 10
/** A targets file is taken up within two seconds. */
const takenUpMs = 2_500
/** The best of three open relays on two busy cores: in-order deliveries a second and target, ms at 20 a second. */
const bestPeer = { perTarget: 153, p50: 10 }

/** p95 from publishing to arrival, as a multiple of that of undici alone: on Kafka, fetching takes most of it. */
const p95TimesMax = { embedded: 5, Kafka: 10 }

export const webhooksBench: Bench = {
  name: 'webhooks',
  purpose: `webhooks delivered in order to ${sinkCount} local sinks, each event about 1 KB, compared with the same POSTs sent by undici alone`,
  async run(report) {
    const rows: BenchRow[] = []
    for (const driver of ['embedded', 'Kafka'] as const) {
      const stage = await openWebhookStage(driver)
      try {
        const drained = await drain(stage, report)
        rows.push(
          ...drainRows(driver, drained),
          ...latencyRows(driver, await latency(stage, drained.sample, report)),
        )
        rows.push(await late(stage, report), await nextToHanging(stage, report))
        rows.push(...(await fired(stage, report)))
      } finally {
        await stage.close()
      }
    }
    return rows
  },
}

interface Drained {
  courier: number[]
  floor: number[]
  /** Times of the bare parts on Kafka; empty for the embedded log. */
  bare: number[]
  sample: Sample
}

/** Fill, drain by the courier, drain by undici; every second round changes the order. */
async function drain(stage: WebhookStage, report: (text: string) => void): Promise<Drained> {
  const { sinks, platform, urls, driver, brokers } = stage
  const found: Drained = { courier: [], floor: [], bare: [], sample: { headers: {}, body: '' } }
  const all = urls.map(() => drainedPerSink)
  const drains = {
    async courier() {
      await platform.call('startCourier', null)
      await sinks.call('until', all)
      await platform.call('stopCourier', null)
    },
    floor: () => floorDrain(urls, found.sample, drainedPerSink),
    bare: () => kafkaFloorDrain(brokers, urls, found.sample, drainedPerSink),
  }
  const names: (keyof typeof drains)[] = ['courier', 'floor']
  if (driver === 'Kafka') names.push('bare')
  for (let round = 0; round <= drainRounds; round++) {
    const body = await platform.call('fill', { targets: sinkCount, count: drainedPerSink })
    const shown: string[] = []
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      await sinks.call('begin', well)
      await drains[name]()
      const reports = await sinks.call('report', null)
      if (name === 'courier') found.sample = sampleOf(reports[0]!, body)
      shown.push(`${name} ${Math.round(rateOf(reports))}`)
      // The first round warms all of them up.
      if (round > 0) found[name].push(rateOf(reports))
    }
    report(`  ${driver} drained, round ${round}: ${shown.join(', ')} deliveries/s`)
  }
  return found
}

/** On Kafka the bar compares with kafkajs and undici: undici alone leaves both cores to sinks and sender, none to a broker. */
function drainRows(driver: Driver, { courier, floor, bare }: Drained): BenchRow[] {
  const comparedWith = (what: string, rates: number[]) => ({
    unit: 'deliveries/s',
    measured: median(courier),
    peer: { what, value: median(rates) },
    ratio: median(courier.map((rate, round) => rate / rates[round]!)),
  })
  const what = `drained from the log, ${driver}`
  const drained: BenchRow[] =
    driver === 'embedded'
      ? [{ what, ...comparedWith('undici alone', floor), bar: { min: 0.5 } }]
      : [
          { what, ...comparedWith('kafkajs and undici alone', bare), bar: { min: 0.7 } },
          {
            what,
            ...comparedWith('undici alone', floor),
            goal: { min: 0.5 },
            note: 'the broker shares the cores',
          },
        ]
  return [
    ...drained,
    {
      what: `the same for one target, compared with the best of other relays, ${driver}`,
      unit: 'deliveries/s',
      measured: median(courier) / sinkCount,
      peer: { what: 'best, measured elsewhere', value: bestPeer.perTarget },
      goal: { min: 3 },
    },
  ]
}

interface Latency {
  p50: number
  p95: number
}

/** Publishing to arrival at 20 events a second, in turns with POSTs at that pace. */
async function latency(stage: WebhookStage, sample: Sample, report: (text: string) => void) {
  const { sinks, platform, urls, driver } = stage
  const found: { courier: Latency[]; floor: Latency[] } = { courier: [], floor: [] }
  await platform.call('startCourier', null)
  for (let round = 0; round <= pacedRounds; round++) {
    const courier = await pacedRound(stage, null)
    await sinks.call('begin', { ...well, timed: true })
    await floorPaced(urls.slice(0, pacedTargets), sample, perSecond, pacedCount)
    const floor = latencyOf(await sinks.call('report', null))
    report(`  ${driver} at ${perSecond}/s, round ${round}: courier ${shown(courier)}, floor ${shown(floor)}`)
    if (round === 0) continue
    found.courier.push(courier)
    found.floor.push(floor)
  }
  await platform.call('stopCourier', null)
  return found
}

/** One round of events at the pace, to three targets and, where one hangs, to that one. */
async function pacedRound(
  { sinks, platform }: Pick<WebhookStage, 'sinks' | 'platform'>,
  hanging: number | null,
): Promise<Latency> {
  await sinks.call('begin', { ...well, hanging, timed: true })
  const targets = hanging === null ? pacedTargets : sinkCount
  await platform.call('publish', { targets, count: pacedCount, perSecond })
  await sinks.call('until', fastOnes())
  return latencyOf((await sinks.call('report', null)).slice(0, pacedTargets))
}

function fastOnes(): (number | null)[] {
  return Array.from({ length: sinkCount }, (_, sink) => (sink < pacedTargets ? pacedCount : null))
}

function latencyOf(reports: { latencies: number[] }[]): Latency {
  const latencies = reports.flatMap((report) => report.latencies)
  return { p50: quantile(latencies, 0.5), p95: quantile(latencies, 0.95) }
}

function shown({ p50, p95 }: Latency): string {
  return `p50 ${p50.toFixed(1)}, p95 ${p95.toFixed(1)} ms`
}

function latencyRows(
  driver: Driver,
  { courier, floor }: { courier: Latency[]; floor: Latency[] },
): BenchRow[] {
  const rowOf = (quantity: 'p50' | 'p95') => ({
    what: `publishing to arrival, ${quantity} at ${perSecond} events a second, ${driver}`,
    unit: 'ms',
    measured: median(courier.map((one) => one[quantity])),
    peer: { what: 'undici alone', value: median(floor.map((one) => one[quantity])) },
    ratio: median(courier.map((one, round) => one[quantity] / floor[round]![quantity])),
  })
  return [
    { ...rowOf('p50'), note: `best of other relays, measured elsewhere: ${bestPeer.p50} ms` },
    { ...rowOf('p95'), bar: { max: p95TimesMax[driver] } },
  ]
}

/** Every tenth first attempt fails: who arrives behind a later one? */
async function late(
  { sinks, platform, driver }: WebhookStage,
  report: (text: string) => void,
): Promise<BenchRow> {
  await platform.call('startCourier', null)
  // Its partitions are its own when something has arrived.
  await pacedRound({ sinks, platform }, null)
  await sinks.call('begin', { ...well, failEvery, timed: true })
  await platform.call('publish', { targets: pacedTargets, count: pacedCount, perSecond })
  await sinks.call('until', fastOnes())
  const reports = await sinks.call('report', null)
  await platform.call('stopCourier', null)
  const behind = reports.reduce((sum, one) => sum + one.late, 0)
  report(`  ${driver}, 10 % of first attempts fail: ${behind} late, ${shown(latencyOf(reports))}`)
  return {
    what: `late where 10 % of first attempts fail, of ${pacedTargets * pacedCount}, ${driver}`,
    unit: 'events',
    measured: behind,
    bar: { max: 0 },
    note: `other relays: 10 to 60 %; back-off ${backoffMs} ms, ${shown(latencyOf(reports))}`,
  }
}

/** The fast targets next to a hanging one, in turns with rounds in which the courier has no such target. */
async function nextToHanging(stage: WebhookStage, report: (text: string) => void): Promise<BenchRow> {
  const { platform, urls, driver } = stage
  const found: { with: number[]; without: number[] } = { with: [], without: [] }
  await platform.call('startCourier', null)
  for (let round = 0; round <= pacedRounds; round++) {
    await retarget(platform, urls.slice(0, pacedTargets))
    const without = await pacedRound(stage, null)
    await retarget(platform, urls)
    const withHanging = await pacedRound(stage, sinkCount - 1)
    report(
      `  ${driver}, hanging target, round ${round}: without ${shown(without)}, with it ${shown(withHanging)}`,
    )
    if (round === 0) continue
    found.with.push(withHanging.p95)
    found.without.push(without.p95)
  }
  await platform.call('stopCourier', null)
  return {
    what: `p95 of the fast targets next to a hanging one, ${driver}`,
    unit: 'ms',
    measured: median(found.with),
    peer: { what: 'without', value: median(found.without) },
    ratio: median(found.with.map((p95, round) => p95 / found.without[round]!)),
    bar: { max: 1.2 },
  }
}

async function retarget(platform: WebhookStage['platform'], urls: string[]): Promise<void> {
  await platform.call('retarget', { urls, backoffMs })
  await new Promise((resolve) => setTimeout(resolve, takenUpMs))
}

/** Through HTTP: relay, log, courier, sink. */
async function fired(stage: WebhookStage, report: (text: string) => void): Promise<BenchRow[]> {
  const { sinks, platform, driver } = stage
  const url = await platform.call('startRelay', null)
  await sinks.call('begin', well)
  // The hanging target answers now: its pending events are not part of the measurement.
  const query = Array.from({ length: pacedTargets }, (_, n) => `targets=sink-${n}`).join('&')
  let left = firedCount
  const work = async () => {
    const caller = openCaller(url)
    while (left > 0) {
      const body = JSON.stringify({
        event: 'task.completed',
        agent: 'ATLAS',
        task_id: `fired-${left--}`,
        result: { text: 'x'.repeat(850) },
        ts: 1_790_000_000,
      })
      await caller.post(`/api/v1/webhooks/fire?${query}`, Buffer.from(body), {})
    }
    await caller.close()
  }
  await Promise.all(Array.from({ length: firingClients }, work))
  await sinks.call(
    'until',
    Array.from({ length: sinkCount }, (_, sink) => (sink < pacedTargets ? firedCount : null)),
  )
  const rate = rateOf((await sinks.call('report', null)).slice(0, pacedTargets))
  report(`  ${driver}, fired through HTTP: ${Math.round(rate)} deliveries/s`)
  return [
    {
      what: `fired by ${firingClients} clients through HTTP at ${pacedTargets} targets, ${driver}`,
      unit: 'deliveries/s',
      measured: rate,
      note: 'firing included: validation, log and delivery share the machine',
    },
  ]
}
