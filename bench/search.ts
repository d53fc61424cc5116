/** Search through the gateway compared with a bare route that parses, calls the same engine and answers. */

import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { openCaller, runLoad, type Target } from './load.ts'
import { openPlatformStage, type PlatformStage } from './platform-stage.ts'
import { createPointSource } from './points.ts'
import { searchDeletions } from './search-deletions.ts'
import { searchNotes } from './search-notes.ts'
import { startWritingClient } from './writing-client.ts'

const points = 20_000
const rounds = 7
const requests = 400
/** The published p95 of a search, ms. */
const published = 23

export const searchBench: Bench = {
  name: 'search',
  purpose: `p95 of a search over ${points.toLocaleString('en')} clustered points through the gateway, compared with a bare route over the same driver (no authentication, log or audit), and in the engine with remembered deletions`,
  async run(report) {
    return [...(await throughGateway(report)), await searchDeletions(report)]
  },
}

async function throughGateway(report: (text: string) => void): Promise<BenchRow[]> {
  const stage = await openPlatformStage()
  try {
    await fill(stage, report)
    const alone = await compare(stage, 1, report)
    const eight = await compare(stage, 8, report)
    const writing = await whileWriting(stage, report)
    await settle(stage, report)
    const notes = await searchNotes(stage, targets(stage).gateway, queries, report)
    return [
      ...rowsOf('1 client', alone, { max: 1.3 }),
      ...rowsOf('8 clients', eight, { max: 2 }, { max: 1.3 }),
      {
        what: 'gateway p95, 1 client, while upserts of 1,000 points run',
        unit: 'ms',
        measured: writing.p95,
        note: `published: ${published} ms; ${writing.upserts} upserts meanwhile; audit-writer lag ${writing.lag}`,
      },
      {
        what: 'the same compared with the p95 without upserts',
        unit: 'ms',
        measured: writing.p95,
        peer: { what: 'without', value: alone.gateway },
        bar: { max: 2.5 },
        goal: { max: 2 },
      },
      notes,
    ]
  } finally {
    await stage.close()
  }
}

interface Compared {
  gateway: number
  floor: number
  ratio: number
  lag: number
}

function rowsOf(clients: string, found: Compared, bar: BenchRow['bar'], goal?: BenchRow['goal']): BenchRow[] {
  return [
    {
      what: `p95, ${clients}`,
      unit: 'ms',
      measured: found.gateway,
      peer: { what: 'bare route', value: found.floor },
      ratio: found.ratio,
      ...(bar ? { bar } : {}),
      ...(goal ? { goal } : {}),
      note: `published: ${published} ms; audit-writer lag ${found.lag}`,
    },
  ]
}

const queries = (() => {
  const source = createPointSource(99)
  return Array.from({ length: 200 }, () =>
    Buffer.from(JSON.stringify({ collection: 'knowledgebase', vector: source.vector(), limit: 10 })),
  )
})()

async function fill(stage: PlatformStage, report: (text: string) => void): Promise<void> {
  const source = createPointSource(1)
  const caller = openCaller(stage.vectorUrl)
  for (let from = 0; from < points; from += 500) {
    const batch = Array.from({ length: 500 }, (_, i) => source.point(`point-${from + i}`))
    const body = Buffer.from(JSON.stringify({ collection: 'knowledgebase', points: batch }))
    await caller.post('/v1/vectors/upsert?wait=true', body, { authorization: `Bearer ${stage.key}` })
    if ((from / 500) % 10 === 9) report(`  filled ${from + 500} of ${points} points`)
  }
  await caller.close()
  await settle(stage, report)
}

/** Waits until the audit notes are written and the index has optimised itself. */
async function settle(stage: PlatformStage, report: (text: string) => void): Promise<void> {
  const caller = openCaller(stage.floorUrl)
  for (let i = 0; i < 120; i++) {
    const settled = await caller.post('/settled', Buffer.from('{}'), {}).then(
      () => true,
      () => false,
    )
    if (settled && (await stage.lag('audit-writer')) === 0) break
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
  await caller.close()
  report('  the index has settled')
}

function targets(stage: PlatformStage): { gateway: Target; floor: Target } {
  return {
    gateway: {
      origin: stage.vectorUrl,
      path: '/v1/vectors/search',
      headers: { authorization: `Bearer ${stage.key}` },
    },
    floor: { origin: stage.floorUrl, path: '/search', headers: {} },
  }
}

/** Gateway and floor in turn; the ratio of the p95 of each round, and their median. */
async function compare(
  stage: PlatformStage,
  clients: number,
  report: (text: string) => void,
): Promise<Compared> {
  const { gateway, floor } = targets(stage)
  const found: { gateway: number[]; floor: number[] } = { gateway: [], floor: [] }
  let lag = 0
  for (let round = 0; round <= rounds; round++) {
    const p95 = {
      floor: quantile(await runLoad(floor, queries, clients, requests), 0.95),
      gateway: quantile(await runLoad(gateway, queries, clients, requests), 0.95),
    }
    lag = await stage.lag('audit-writer')
    report(
      `  ${clients} client(s), round ${round}: gateway ${p95.gateway.toFixed(2)} ms, floor ${p95.floor.toFixed(2)} ms, lag ${lag}`,
    )
    if (round === 0) continue // The first round warms both up.
    found.gateway.push(p95.gateway)
    found.floor.push(p95.floor)
  }
  const ratio = median(found.gateway.map((value, round) => value / found.floor[round]!))
  return { gateway: median(found.gateway), floor: median(found.floor), ratio, lag }
}

/** p95 of searches while another client sends upserts of 1,000 points back to back. */
async function whileWriting(stage: PlatformStage, report: (text: string) => void) {
  // With wait=true the next begins when the last is applied: back to back, without filling the backlog.
  const writer = startWritingClient({
    origin: stage.vectorUrl,
    path: '/v1/vectors/upsert?wait=true',
    headers: { authorization: `Bearer ${stage.key}` },
    collection: 'posts',
    points: 1_000,
  })
  const latencies = await runLoad(targets(stage).gateway, queries, 1, 1_500)
  const upserts = await writer.stop()
  const p95 = quantile(latencies, 0.95)
  report(`  while upserts run: p50 ${quantile(latencies, 0.5).toFixed(2)}, p95 ${p95.toFixed(2)} ms`)
  return { p95, upserts, lag: await stage.lag('audit-writer') }
}
