/** Processor time of a platform that nobody calls, on distributed engines, and of its brokers. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Bench } from './bench.ts'
import { type DistributedStage, difference, openDistributedStage, warmBrokers } from './distributed-stage.ts'
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
      const { platform, kafka, postgres, qdrant } = running
      return [
        {
          what: 'the platform',
          unit: '% of a core',
          measured: mean(platform),
          bar: { max: 1 },
          note: `by the minute: ${platform.map((value) => value.toFixed(2)).join(', ')}`,
        },
        {
          what: 'the three brokers, more than without it',
          unit: '% of a core',
          measured: mean(kafka) - mean(alone.kafka),
          bar: { max: 3 },
          note: `${mean(kafka).toFixed(1)} with it, ${mean(alone.kafka).toFixed(1)} without; Postgres ${mean(postgres).toFixed(1)}, Qdrant ${mean(qdrant).toFixed(1)}`,
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

type Shares = Record<keyof ReturnType<DistributedStage['used']>, number[]>

/** In % of a core, by the minute. */
async function measure(
  used: () => ReturnType<DistributedStage['used']>,
  what: string,
  report: (text: string) => void,
): Promise<Shares> {
  const shares: Shares = { platform: [], kafka: [], qdrant: [], postgres: [] }
  for (let minute = 1; minute <= minutes; minute++) {
    const before = used()
    await pause(60_000)
    const spent = difference(used(), before)
    for (const name of ['platform', 'kafka', 'qdrant', 'postgres'] as const) {
      shares[name].push((spent[name] * 100) / 60)
    }
    report(
      `  minute ${minute} ${what}, % of a core: platform ${shares.platform.at(-1)!.toFixed(2)}, brokers ${shares.kafka.at(-1)!.toFixed(1)}`,
    )
  }
  return shares
}

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
