/** The embedded platform's use of a machine: memory, processor, disk, and how long one waits for it. */

import { spawnSync } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '#client/client.ts'
import { type Bench, type BenchRow, median } from './bench.ts'
import { openCaller } from './load.ts'
import { createPointSource } from './points.ts'
import { endedSeconds, processorSeconds, residentBytes } from './processor-time.ts'
import { command, createHome, type Home, type StartedPlatform, startPlatform } from './started-platform.ts'

const mb = 1e6
const points = 20_000
const pointsPerRequest = 500
/** Memory and processor are read this long after the line `ready`, the processor over the second half. */
const restMs = 60_000
/** After a load: from when nothing is left to do. */
const settleMs = 10_000
const settleMsMax = 180_000
const startRounds = 3
const emptyRuns = 5
const versionRuns = 20

export const footprintBench: Bench = {
  name: 'footprint',
  purpose: `\`npm start\` on an empty data directory, the whole process tree (memory is the sum of RSS, so shared pages count in each process), ${points.toLocaleString('en')} points of 1536, and starts compared with \`node -e 0\``,
  async run(report) {
    const home = createHome()
    try {
      const used = await measureUse(home, report)
      const disk = diskRow(home)
      const starts = await measureStarts(report)
      return [...used, disk, ...starts, measureVersion()]
    } finally {
      home.remove()
    }
  },
}

async function measureUse(home: Home, report: (text: string) => void): Promise<BenchRow[]> {
  const started = await startPlatform(home)
  try {
    return [...(await measureRest(started, report)), ...(await measureLoad(started, report))]
  } finally {
    await started.stop()
  }
}

async function measureRest({ pid }: StartedPlatform, report: (text: string) => void): Promise<BenchRow[]> {
  await pause(restMs / 2)
  const [usedBefore, begun] = [processorSeconds(pid), performance.now()]
  await pause(restMs / 2)
  const share = (processorSeconds(pid) - usedBefore) / ((performance.now() - begun) / 1_000)
  const memory = residentBytes(pid)
  report(`  at rest: ${Math.round(memory / mb)} MB, ${(share * 100).toFixed(1)} % of a core`)
  return [
    {
      what: 'memory, empty data directory, a minute after ready',
      unit: 'MB',
      measured: memory / mb,
      bar: { max: 600 },
      goal: { max: 400 },
    },
    {
      what: 'processor at rest, of one core',
      unit: '%',
      measured: share * 100,
      bar: { max: 1 },
      goal: { max: 0.3 },
    },
  ]
}

/** Points through the gateway, each request until it is applied; then until every group has read all of it. */
async function measureLoad(platform: StartedPlatform, report: (text: string) => void): Promise<BenchRow[]> {
  const { private_key_file: privateKeyFile } = await platform.run<{ private_key_file: string }>(
    ...['agents', 'provision', '--agent-id', 'bench', '--tier', 'infra-architect'],
  )
  const client = createClient({ vectorUrl: platform.vectorUrl, agentId: 'bench', privateKeyFile })
  const headers = { authorization: `Bearer ${await client.apiKey()}` }
  await client.close()
  const caller = openCaller(platform.vectorUrl)
  const source = createPointSource(17)
  let peak = 0
  for (let n = 0; n < points; n += pointsPerRequest) {
    const batch = Array.from({ length: pointsPerRequest }, (_, i) => source.point(`point-${n + i}`))
    const body = Buffer.from(JSON.stringify({ collection: 'knowledgebase', points: batch }))
    await caller.post('/v1/vectors/upsert?wait=true', body, headers)
    peak = Math.max(peak, residentBytes(platform.pid))
  }
  await caller.close()
  await untilSettled(platform)
  const memory = residentBytes(platform.pid)
  report(
    `  after ${points} points: ${Math.round(memory / mb)} MB, at most ${Math.round(peak / mb)} MB before`,
  )
  return [
    {
      what: `memory, ${points.toLocaleString('en')} points, when all of the load is done`,
      unit: 'MB',
      measured: memory / mb,
      bar: { max: 900 },
      goal: { max: 600 },
      note: `while points came, at most ${Math.round(peak / mb)} MB`,
    },
  ]
}

interface Lag {
  groups: { group: string; lag: number }[]
}
interface Stats {
  collections: { index_status: string }[]
}

/** No group is behind, and no index is being merged. */
async function untilSettled(platform: StartedPlatform): Promise<void> {
  const until = performance.now() + settleMsMax
  for (let quietSince = performance.now(); performance.now() < until; ) {
    const { groups } = await platform.run<Lag>('lag')
    const { collections } = await platform.run<Stats>('stats')
    const quiet =
      groups.every(({ lag }) => lag === 0) &&
      collections.every(({ index_status: status }) => status === 'ready')
    if (!quiet) quietSince = performance.now()
    else if (performance.now() - quietSince > settleMs) return
    await pause(1_000)
  }
  throw new Error(`the platform was still at work ${settleMsMax} ms after the load`)
}

function diskRow(home: Home): BenchRow {
  return {
    what: `disk for ${points.toLocaleString('en')} points after a clean stop`,
    unit: 'MB',
    measured: home.diskBytes() / mb,
    bar: { max: 650 },
    goal: { max: 450 },
    note: `their vectors: ${Math.round((points * 1536 * 4) / mb)} MB`,
  }
}

/** Starts in turn with `node -e 0`: on an empty data directory, then on the same one again. */
async function measureStarts(report: (text: string) => void): Promise<BenchRow[]> {
  const took = { first: [] as number[], later: [] as number[], empty: [] as number[] }
  for (let round = 0; round < startRounds; round++) {
    const home = createHome()
    try {
      for (const kind of ['first', 'later'] as const) {
        const platform = await startPlatform(home)
        await platform.stop()
        took[kind].push(platform.readyMs)
      }
    } finally {
      home.remove()
    }
    took.empty.push(median(Array.from({ length: emptyRuns }, emptyNodeMs)))
    report(`  ready after ${Math.round(took.first[round]!)} ms, later ${Math.round(took.later[round]!)} ms`)
  }
  const row = (kind: 'first' | 'later', bar: number, goal: number): BenchRow => ({
    what: `ready, ${kind} start`,
    unit: 'ms',
    measured: median(took[kind]),
    peer: { what: 'node -e 0', value: median(took.empty) },
    ratio: median(took[kind].map((ms, round) => ms / took.empty[round]!)),
    bar: { max: bar },
    goal: { max: goal },
  })
  return [row('first', 80, 40), row('later', 50, 20)]
}

function emptyNodeMs(): number {
  const begun = performance.now()
  spawnSync(process.execPath, ['-e', '0'])
  return performance.now() - begun
}

/** Processor time, which another load of the machine changes less than the time that passes. */
function measureVersion(): BenchRow {
  const used = { version: 0, empty: 0 }
  for (let run = 0; run < versionRuns; run++) {
    used.empty += childSeconds(['-e', '0'])
    used.version += childSeconds([command, '--version'])
  }
  return {
    what: 'processor time of `flotilla --version`',
    unit: 'ms',
    measured: (used.version / versionRuns) * 1_000,
    peer: { what: 'node -e 0', value: (used.empty / versionRuns) * 1_000 },
    bar: { max: 6 },
    goal: { max: 3 },
    note: `${versionRuns} runs of each`,
  }
}

function childSeconds(args: string[]): number {
  const before = endedSeconds(process.pid)
  spawnSync(process.execPath, args)
  return endedSeconds(process.pid) - before
}
