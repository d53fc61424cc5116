/** The built-in embedder: whom it finds, how long a short text takes, its memory; and a caller next to long texts of another one. */

import { readFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import { openMeaning } from '#engines/embedder/meaning.ts'
import type { Embedder } from '#engines/embedder/port.ts'
import { loadCranfield } from '../packages/stidx/bench/judge.ts'
import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { keyOf, openPlatformStage } from './platform-stage.ts'

const rounds = 9
const longestCharacters = 16_384
const longTexts = 1_000
const searchesAlone = 300

interface Judged {
  docs: { id: string; text: string }[]
  queries: { text: string; relevant: ReadonlySet<string> }[]
}

export const embedderBench: Bench = {
  name: 'embedder',
  purpose:
    'the built-in embedder compared with its words alone: judged questions, time, memory; and searches of a caller while another one upserts 1,000 of the longest texts',
  async run(report) {
    const memory = memoryRow()
    const [meaning, lexical] = [openLocalEmbedder(), openLocalEmbedder('lexical')]
    try {
      const rows = [
        await qualityRow('nDCG@10 on Cranfield', cranfield(), ndcg, { meaning, lexical, min: 0.32 }),
        await qualityRow('recall@10 of 20 paraphrases', paraphrases(), recall, { meaning, lexical, min: 1 }),
        await timeRow(meaning, lexical),
        memory,
      ]
      report(`  ${rows.map(({ what, measured }) => `${what} ${measured.toFixed(3)}`).join(', ')}`)
      return [...rows, await meanwhileRow(report)]
    } finally {
      await meaning.close()
      await lexical.close()
    }
  },
}

function cranfield(): Judged {
  const { documents, queries } = loadCranfield()
  return {
    docs: documents.map((each) => ({ id: each.id, text: `${each.title} ${each.body}` })),
    queries: queries.map(({ text, relevant }) => ({ text, relevant: new Set(relevant) })),
  }
}

function paraphrases(): Judged {
  const file = new URL('./data/paraphrases.json', import.meta.url)
  const { docs, queries } = JSON.parse(readFileSync(file, 'utf8')) as {
    docs: Judged['docs']
    queries: { text: string; rel: Record<string, number> }[]
  }
  return { docs, queries: queries.map(({ text, rel }) => ({ text, relevant: new Set(Object.keys(rel)) })) }
}

type Score = (ranked: string[], relevant: ReadonlySet<string>) => number

const gains = (ranks: number[]) => ranks.reduce((sum, rank) => sum + 1 / Math.log2(rank + 2), 0)

function ndcg(ranked: string[], relevant: ReadonlySet<string>): number {
  const hits = ranked.slice(0, 10).flatMap((id, rank) => (relevant.has(id) ? [rank] : []))
  return gains(hits) / gains(Array.from({ length: Math.min(10, relevant.size) }, (_, rank) => rank))
}

function recall(ranked: string[], relevant: ReadonlySet<string>): number {
  return ranked.slice(0, 10).filter((id) => relevant.has(id)).length / relevant.size
}

async function scoreOf(embedder: Embedder, { docs, queries }: Judged, score: Score): Promise<number> {
  const vectors = await embedder.embed(docs.map(({ text }) => text))
  const asked = await embedder.embed(queries.map(({ text }) => text))
  const scores = queries.map(({ relevant }, n) => {
    const question = asked[n]!
    const near = vectors.map((vector, at) => ({ id: docs[at]!.id, score: dot(vector, question) }))
    const ranked = near.sort((a, b) => b.score - a.score).map(({ id }) => id)
    return score(ranked, relevant)
  })
  return scores.reduce((sum, one) => sum + one, 0) / scores.length
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0
  for (let n = 0; n < a.length; n++) sum += a[n]! * b[n]!
  return sum
}

async function qualityRow(
  what: string,
  judged: Judged,
  score: Score,
  { meaning, lexical, min }: { meaning: Embedder; lexical: Embedder; min: number },
): Promise<BenchRow> {
  const words = await scoreOf(lexical, judged, score)
  return {
    what,
    unit: '',
    measured: await scoreOf(meaning, judged, score),
    bar: { min },
    note: `the words alone: ${words.toFixed(3)}`,
  }
}

async function timeRow(meaning: Embedder, lexical: Embedder): Promise<BenchRow> {
  const { docs, queries } = paraphrases()
  const texts = [...docs, ...queries].map(({ text }) => text)
  const took: { meaning: number[]; lexical: number[] } = { meaning: [], lexical: [] }
  for (let round = 0; round <= rounds; round++) {
    for (const [kind, embedder] of Object.entries({ meaning, lexical }) as [keyof typeof took, Embedder][]) {
      const begun = performance.now()
      for (let times = 0; times < 50; times++) for (const text of texts) await embedder.embed([text])
      // The first round warms both up.
      if (round > 0) took[kind].push(((performance.now() - begun) * 1_000) / 50 / texts.length)
    }
  }
  return {
    what: 'a note of a sentence',
    unit: 'µs',
    measured: median(took.meaning),
    bar: { max: 100 },
    note: `the words alone: ${median(took.lexical).toFixed(0)} µs`,
  }
}

function memoryRow(): BenchRow {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const used = () => {
    collect()
    return process.memoryUsage.rss()
  }
  const before = used()
  openMeaning()('the lighthouse is repaired')
  return { what: 'memory of the table', unit: 'MB', measured: (used() - before) / 1e6, bar: { max: 30 } }
}

/** One agent searches by vector on the running platform, alone and while another one upserts. */
async function meanwhileRow(report: (text: string) => void): Promise<BenchRow> {
  const stage = await openPlatformStage(['relational-writer'], { BENCH_CALLERS: '2' })
  try {
    const [caller, writer] = (await Promise.all(
      stage.callers.map(({ agentId, privateKeyFile }) => keyOf(stage, agentId, privateKeyFile)),
    )) as [string, string]
    const ask = async (key: string, path: string, body: object) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const request = { method: 'POST', headers, body: JSON.stringify(body) }
      const response = await fetch(new URL(`/v1/vectors/${path}`, stage.vectorUrl), request)
      if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
      await response.arrayBuffer()
    }
    const vector = Array.from({ length: 1_536 }, (_, n) => ((n * 7) % 13) - 6)
    const near = (n: number) => vector.map((one, at) => one + ((n + at) % 5))
    const stored = Array.from({ length: 500 }, (_, n) => ({ id: `p${n}`, vector: near(n) }))
    await ask(caller, 'upsert?wait=true', { collection: 'posts', points: stored })
    async function searching(until: () => boolean): Promise<number[]> {
      const took: number[] = []
      while (!until()) {
        const begun = performance.now()
        await ask(caller, 'search', { collection: 'posts', vector, limit: 10 })
        took.push(performance.now() - begun)
      }
      return took
    }
    const searches = (count: number) => searching(() => count-- <= 0)
    await searches(searchesAlone)
    const alone = quantile(await searches(searchesAlone), 0.95)
    const text = 'The lighthouse of the old harbour is repaired, and the ferry leaves at nine. '
    const long = text.repeat(longestCharacters / text.length + 1).slice(0, longestCharacters - 8)
    const points = Array.from({ length: longTexts }, (_, n) => ({ id: `t${n}`, text: `${n} ${long}` }))
    let over = false
    const begun = performance.now()
    const upserting = ask(writer, 'upsert', { collection: 'knowledgebase', points }).finally(() => {
      over = true
    })
    const meanwhile = await searching(() => over)
    await upserting
    const ms = Math.round(performance.now() - begun)
    report(`  ${longTexts} texts in ${ms} ms, ${meanwhile.length} searches meanwhile`)
    return {
      what: `p95 of a search while ${longTexts} of the longest texts are embedded`,
      unit: 'ms',
      measured: quantile(meanwhile, 0.95),
      peer: { what: 'the same search alone', value: alone },
      bar: { max: 2 },
    }
  } finally {
    await stage.close()
  }
}
