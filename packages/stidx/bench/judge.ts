/** Judges rankings against the known relevant records: nDCG@10, MRR@10 and recall@100. */

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface JudgedQuery {
  id: number
  text: string
  relevant: string[]
}

export interface JudgedDocument {
  id: string
  title: string
  body: string
}

export interface Judgement {
  ndcg10: number
  mrr10: number
  recall100: number
}

const cranfield = new URL('../test/cranfield/', import.meta.url)
export const cranfieldDocumentsFile = fileURLToPath(new URL('docs.jsonl', cranfield))

export function loadCranfield(): { documents: JudgedDocument[]; queries: JudgedQuery[] } {
  const read = <T>(name: string) =>
    readFileSync(new URL(name, cranfield), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as T)
  return { documents: read('docs.jsonl'), queries: read('queries.jsonl') }
}

/** `search` gives ids by falling score, at least 100 where there are as many. Means over all queries. */
export function judge(
  queries: readonly JudgedQuery[],
  search: (query: string, index: number) => string[],
): Judgement {
  const sums: Judgement = { ndcg10: 0, mrr10: 0, recall100: 0 }
  for (const [index, query] of queries.entries()) {
    const relevant = new Set(query.relevant)
    const ranks = search(query.text, index)
      .slice(0, 100)
      .flatMap((id, rank) => (relevant.has(id) ? [rank] : []))
    const gains = (all: number[]) => all.reduce((sum, rank) => sum + 1 / Math.log2(rank + 2), 0)
    const ideal = Array.from({ length: Math.min(10, relevant.size) }, (_, rank) => rank)
    sums.ndcg10 += gains(ranks.filter((rank) => rank < 10)) / gains(ideal)
    sums.mrr10 += ranks[0] !== undefined && ranks[0] < 10 ? 1 / (ranks[0] + 1) : 0
    sums.recall100 += ranks.length / relevant.size
  }
  const mean = (sum: number) => sum / queries.length
  return { ndcg10: mean(sums.ndcg10), mrr10: mean(sums.mrr10), recall100: mean(sums.recall100) }
}

/** Mean over the items of 1 / rank, 0 beyond the tenth. */
export function knownItemMrr(ranks: readonly number[]): number {
  return ranks.reduce((sum, rank) => sum + (rank >= 1 && rank <= 10 ? 1 / rank : 0), 0) / ranks.length
}
