/** Notes a second through the hub compared with bare inserts of the same rows, and the time until a note is found. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import { findQdrant } from '../scripts/servers/qdrant.ts'
import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { openDistributedStage } from './distributed-stage.ts'
import { openCaller, runLoad, type Target } from './load.ts'
import { openPlatformStage, type PlatformStage } from './platform-stage.ts'

const clients = 16
const notesPerRound = 1_000
const rounds = 5
const found = 60
const foundMsMax = 10_000
const pollMs = 2

export const hubBench: Bench = {
  name: 'hub',
  purpose:
    'notes a second compared with a bare route that inserts the same row and outbox row; from POST to found by search',
  async run(report) {
    // The indexing of notes would run into the rounds of the floor; it is measured by the second row.
    const creating = await onStage(['relational-writer', 'note-indexer'], (stage) => create(stage, report))
    const searching = await onStage(['relational-writer'], (stage) => untilFound(stage, 'embedded'))
    return [creating, ...searching, ...(await onServers(report))]
  },
}

type Served = Pick<PlatformStage, 'hubUrl' | 'vectorUrl' | 'key'>

async function onStage<T>(without: string[], work: (stage: PlatformStage) => Promise<T>): Promise<T> {
  const stage = await openPlatformStage(without)
  try {
    return await work(stage)
  } finally {
    await stage.close()
  }
}

/** No rows where no qdrant executable is on the PATH. */
async function onServers(report: (text: string) => void): Promise<BenchRow[]> {
  if (findQdrant() === null) return []
  const stage = await openDistributedStage(report, ['relational-writer'])
  try {
    const { home, vectorUrl } = stage.platform
    const { hub_url: hubUrl } = JSON.parse(readFileSync(join(home, 'run', 'addresses.json'), 'utf8'))
    return await untilFound({ hubUrl, vectorUrl, key: stage.key }, 'Kafka, Qdrant')
  } finally {
    await stage.close()
  }
}

async function create(stage: PlatformStage, report: (text: string) => void): Promise<BenchRow> {
  const bodies = Array.from({ length: 50 }, (_, n) =>
    Buffer.from(JSON.stringify({ subject: `Note ${n}`, body: 'text '.repeat(40), priority: 'normal' })),
  )
  const floor: Target = { origin: stage.floorUrl, path: '/note', headers: {} }
  const hub: Target = {
    origin: stage.hubUrl,
    path: '/fleet_notes/',
    headers: { authorization: `Bearer ${stage.key}` },
  }
  async function notesPerSecond(target: Target): Promise<number> {
    const begun = performance.now()
    await runLoad(target, bodies, clients, notesPerRound)
    const took = performance.now() - begun
    // The outbox of this round is published before the next one begins.
    while ((await (await fetch(`${stage.floorUrl}/waiting`)).text()) !== '0') await sleep(50)
    return (notesPerRound * 1_000) / took
  }
  const rates: { floor: number[]; hub: number[] } = { floor: [], hub: [] }
  for (let round = 0; round <= rounds; round++) {
    const bare = await notesPerSecond(floor)
    const through = await notesPerSecond(hub)
    report(`  round ${round}: hub ${Math.round(through)}, floor ${Math.round(bare)} notes/s`)
    if (round === 0) continue // The first round warms both up.
    rates.floor.push(bare)
    rates.hub.push(through)
  }
  return {
    what: `notes, ${clients} clients`,
    unit: 'notes/s',
    measured: median(rates.hub),
    peer: { what: 'bare route', value: median(rates.floor) },
    ratio: median(rates.hub.map((rate, round) => rate / rates.floor[round]!)),
    bar: { min: 0.7 },
  }
}

/** One note after the other, each asked for until search finds it; in turn with an upsert that waits, and a search. */
async function untilFound(stage: Served, engines: string): Promise<BenchRow[]> {
  const embedder = openLocalEmbedder()
  const headers = { authorization: `Bearer ${stage.key}` }
  const caller = openCaller(stage.vectorUrl)
  const notes: number[] = []
  const upserts: number[] = []
  for (let n = -5; n < found; n++) {
    const text = `lighthouse${n} keeper${n * 7} lamp${n * 13}`
    const [vector] = await embedder.embed([text])
    const wanted = Array.from(vector!)
    const note = await timeOfNote(stage, headers, text, wanted)
    const begun = performance.now()
    const point = { id: `bench-${n}`, vector: wanted, payload: {} }
    await caller.post(
      '/v1/vectors/upsert?wait=true',
      bodyOf({ collection: 'posts', points: [point] }),
      headers,
    )
    await caller.post(
      '/v1/vectors/search',
      bodyOf({ collection: 'posts', vector: wanted, limit: 1 }),
      headers,
    )
    if (n < 0) continue
    notes.push(note)
    upserts.push(performance.now() - begun)
  }
  await caller.close()
  const what = `from POST of a note to found by search, ${engines}`
  const peer = 'upsert with wait=true, and search'
  return [
    {
      what: `${what}, p50`,
      unit: 'ms',
      measured: median(notes),
      peer: { what: peer, value: median(upserts) },
      bar: { max: 10 },
    },
    { what: `${what}, p95`, unit: 'ms', measured: quantile(notes, 0.95) },
  ]
}

async function timeOfNote(
  stage: Served,
  headers: Record<string, string>,
  text: string,
  vector: number[],
): Promise<number> {
  const begun = performance.now()
  const made = await fetch(`${stage.hubUrl}/fleet_notes/`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: bodyOf({ subject: text, body: '' }),
  })
  const { id } = (await made.json()) as { id: number }
  const query = bodyOf({ collection: 'fleet_notes', vector, limit: 1 })
  while (performance.now() - begun < foundMsMax) {
    const answer = await fetch(`${stage.vectorUrl}/v1/vectors/search`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: query,
    })
    const { results } = (await answer.json()) as { results: { id: string }[] }
    if (results[0]?.id === `note-${id}`) return performance.now() - begun
    await sleep(pollMs)
  }
  throw new Error(`note ${id} was not found within ${foundMsMax} ms`)
}

function bodyOf(value: object): Buffer<ArrayBuffer> {
  return Buffer.from(JSON.stringify(value))
}
