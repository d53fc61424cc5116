/** Processor time of a platform that nobody calls, on distributed engines, and of its brokers. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Bench } from './bench.ts'
import {
  type DistributedStage,
  difference,
  openDistributedStage,
  type ProcessorTimes,
  warmBrokers,
} from './distributed-stage.ts'
import { runLoad } from './load.ts'
import { createPointSource } from './points.ts'

/** Each is long enough for a full collection of a platform at rest. */
const minutes = 3
const searches = { requests: 2_000, bodies: 200, clients: 4 }
/** For the work that the last searches set off. */
const quietMs = 30_000

export const restBench: Bench = {
  name: 'rest',
  purpose: `processor time of a platform at rest on three brokers, Postgres and Qdrant, over ${minutes} minutes after load`,
  async run(report) {
    const stage = await openDistributedStage(report)
    try {
      await warmBrokers(stage)
      await search(stage)
      await pause(quietMs)
      const used = () => stage.used([stage.platform])
      const running = await measure(used, 'with the platform', report)
      stage.platform.child.kill('SIGTERM')
      await stage.platform.finished
      const alone = await measure(stage.used, 'without it', report)
      const platform = running.map((minute) => share(minute.platform).toFixed(2))
      const kafka = { running: mean(running, 'kafka'), alone: mean(alone, 'kafka') }
      return [
        {
          what: 'the platform',
          unit: '% of a core',
          measured: mean(running, 'platform'),
          bar: { max: 1 },
          note: `by the minute: ${platform.join(', ')}`,
        },
        {
          what: 'the three brokers, more than without it',
          unit: '% of a core',
          measured: kafka.running - kafka.alone,
          bar: { max: 3 },
          note: `${kafka.running.toFixed(1)} with it, ${kafka.alone.toFixed(1)} without; Postgres ${mean(running, 'postgres').toFixed(1)}, Qdrant ${mean(running, 'qdrant').toFixed(1)}`,
        },
      ]
    } finally {
      await stage.close()
    }
  },
}

/** A platform that has not worked has no garbage either. */
async function search({ platform, key, caughtUp }: DistributedStage): Promise<void> {
  const source = createPointSource(99)
  const bodies = Array.from({ length: searches.bodies }, () =>
    Buffer.from(JSON.stringify({ collection: 'posts', vector: source.vector(), limit: 10 })),
  )
  const target = {
    origin: platform.vectorUrl,
    path: '/v1/vectors/search',
    headers: { authorization: `Bearer ${key}` },
  }
  await runLoad(target, bodies, searches.clients, searches.requests)
  await caughtUp()
}

/** Processor seconds of each minute. */
async function measure(
  used: () => ProcessorTimes,
  what: string,
  report: (text: string) => void,
): Promise<ProcessorTimes[]> {
  const measured: ProcessorTimes[] = []
  for (let minute = 1; minute <= minutes; minute++) {
    const before = used()
    await pause(60_000)
    const spent = difference(used(), before)
    measured.push(spent)
    report(
      `  minute ${minute} ${what}, % of a core: platform ${share(spent.platform).toFixed(2)}, brokers ${share(spent.kafka).toFixed(1)}`,
    )
  }
  return measured
}

/** In % of a core, of the seconds of one minute. */
const share = (seconds: number) => (seconds * 100) / 60

const mean = (measured: ProcessorTimes[], name: keyof ProcessorTimes) =>
  share(measured.reduce((sum, minute) => sum + minute[name], 0)) / measured.length
