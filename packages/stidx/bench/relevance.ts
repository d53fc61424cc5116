/** Compares relevance with the peers: judged queries over Cranfield, and known items of the Debian packages. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BenchRow } from '../../../bench/bench.ts'
import { buildIndex } from '../src/build.ts'
import { asQuestions } from '../test/support/questions.ts'
import type { Corpus } from './debian.ts'
import { buildFts5, openFts5, type Peer } from './fts5.ts'
import { makeKnownItems, writeRecords } from './generate.ts'
import { openMiniSearch, openOurs } from './in-process.ts'
import { type Judgement, judge, knownItemMrr, loadCranfield } from './judge.ts'
import { askTantivy, installTantivy } from './tantivy.ts'

const knownItems = 600
/** The peers' results when the bars were set; for nDCG@10 the value promised since. */
const bars: Judgement = { ndcg10: 0.398, mrr10: 0.54, recall100: 0.74 }

type Report = (text: string) => void
type Ask = (records: string, queries: readonly string[]) => string[][]

export function relevanceRows(corpus: Corpus, folder: string, report: Report): BenchRow[] {
  const absent = installTantivy()
  if (absent) report(`  TANTIVY IS ABSENT: ${absent}`)
  const peers: Record<string, Ask> = {
    ours: asking(folder, 'ours'),
    FTS5: asking(folder, 'fts5'),
    minisearch: asking(folder, 'minisearch'),
    ...(absent
      ? {}
      : {
          tantivy: (records, queries) => askTantivy(records, queries, false),
          'tantivy with the weights': (records, queries) => askTantivy(records, queries, true),
        }),
  }
  return [
    ...cranfieldRows(peers, folder, report),
    halfWithoutBodyRow(peers, folder, report),
    questionsRow(peers.ours!, folder),
    ...knownItemRows(peers, corpus, folder, absent, report),
  ]
}

/** Builds what the peer needs and asks it everything. */
function asking(folder: string, kind: 'ours' | 'fts5' | 'minisearch'): Ask {
  return (records, queries) => {
    const file = join(folder, `relevance.${kind}`)
    if (kind === 'ours') buildIndex({ input: records, output: file })
    if (kind === 'fts5') buildFts5(records, file)
    const open: Record<typeof kind, () => Peer> = {
      ours: () => openOurs(file),
      fts5: () => openFts5(file),
      minisearch: () => openMiniSearch(records),
    }
    const peer = open[kind]()
    const found = queries.map((query) => peer.search(query, 100))
    peer.close()
    return found
  }
}

function cranfieldRows(peers: Record<string, Ask>, folder: string, report: Report): BenchRow[] {
  const { documents, queries } = loadCranfield()
  // Peers write next to their input: a copy of it.
  const input = join(folder, 'cranfield.jsonl')
  writeFileSync(input, documents.map((document) => `${JSON.stringify(document)}\n`).join(''))
  const texts = queries.map(({ text }) => text)
  const judged = Object.entries(peers).map(([name, ask]) => {
    const found = new Map(ask(input, texts).map((ids, i) => [texts[i]!, ids]))
    const judgement = judge(queries, (text) => found.get(text)!)
    report(`  Cranfield, ${name}: ${figures(judgement)}`)
    return { name, judgement }
  })
  const names = { ndcg10: 'nDCG@10', mrr10: 'MRR@10', recall100: 'recall@100' } as const
  return (Object.keys(names) as (keyof Judgement)[]).map((key) => ({
    what: `Cranfield: ${names[key]}`,
    unit: '',
    measured: judged[0]!.judgement[key],
    bar: { min: bars[key] },
    note: judged
      .slice(1)
      .map(({ name, judgement }) => `${name} ${judgement[key].toFixed(3)}`)
      .join(', '),
  }))
}

/** The abstracts, every second one without its body. */
function halfWithoutBodyRow(peers: Record<string, Ask>, folder: string, report: Report): BenchRow {
  const { documents, queries } = loadCranfield()
  const input = join(folder, 'cranfield-half.jsonl')
  const half = documents.map((document, i) => (i % 2 === 0 ? { ...document, body: undefined } : document))
  writeFileSync(input, half.map((document) => `${JSON.stringify(document)}\n`).join(''))
  const texts = queries.map(({ text }) => text)
  const ndcgOf = (name: string) => {
    const found = peers[name]!(input, texts)
    const { ndcg10 } = judge(queries, (_text, i) => found[i]!)
    report(`  Cranfield, half without body, ${name}: ${ndcg10.toFixed(4)}`)
    return ndcg10
  }
  return {
    what: 'Cranfield, half of the records without a body: nDCG@10',
    unit: '',
    measured: ndcgOf('ours'),
    peer: { what: 'FTS5', value: ndcgOf('FTS5') },
    bar: { min: 1 },
  }
}

/** Queries with quotes, colons, brackets and abbreviations in them, next to their plain words. */
function questionsRow(ask: Ask, folder: string): BenchRow {
  const { queries } = loadCranfield()
  const input = join(folder, 'cranfield.jsonl')
  const questions = asQuestions(queries, 1)
  const [plain, asked] = [queries, questions].map((all) =>
    ask(
      input,
      all.map(({ text }) => text),
    ),
  ) as [string[][], string[][]]
  const ndcgOf = (found: string[][]) => judge(queries, (_text, i) => found[i]!).ndcg10
  return {
    what: 'Cranfield, queries as questions with quotes and colons: nDCG@10',
    unit: '',
    measured: ndcgOf(asked),
    peer: { what: 'their plain words', value: ndcgOf(plain) },
    bar: { min: 0.95 },
    note: `${asked.filter((ids) => ids.length === 0).length} of ${questions.length} found nothing`,
  }
}

function figures({ ndcg10, mrr10, recall100 }: Judgement): string {
  return [ndcg10, mrr10, recall100].map((figure) => figure.toFixed(4)).join(' / ')
}

function knownItemRows(
  peers: Record<string, Ask>,
  corpus: Corpus,
  folder: string,
  absent: string | null,
  report: Report,
): BenchRow[] {
  const input = join(folder, 'packages.jsonl')
  writeRecords(input, corpus, corpus.records.length)
  const items = makeKnownItems(corpus, knownItems, 7)
  const mrr = new Map<string, number>()
  for (const [name, ask] of Object.entries(peers)) {
    const found = ask(
      input,
      items.map(({ query }) => query),
    )
    mrr.set(name, knownItemMrr(items.map(({ id }, i) => found[i]!.indexOf(id) + 1)))
    report(`  ${knownItems} known items, ${name}: MRR ${mrr.get(name)!.toFixed(4)}`)
  }
  const row = (peer: string): BenchRow => ({
    what: `MRR of ${knownItems} known items over the corpus`,
    unit: '',
    measured: mrr.get('ours')!,
    peer: { what: peer, value: mrr.get(peer)! },
    ...(peer.startsWith('tantivy') ? { bar: { min: 1 } } : {}),
  })
  const rows = [...mrr.keys()].slice(1).map(row)
  if (absent) {
    const note = `TANTIVY IS ABSENT: ${absent}; nothing was compared`
    rows.push({
      what: 'MRR of known items, compared with tantivy',
      unit: '',
      measured: mrr.get('ours')!,
      note,
    })
  }
  return rows
}
