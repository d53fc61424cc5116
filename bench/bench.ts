/** A bench: a name and a run that gives rows, each a measurement with its peer of the same run. */

export interface BenchRow {
  what: string
  unit: string
  measured: number
  /** The peer or bare engine of the same run; absent for a row that is only shown. */
  peer?: { what: string; value: number }
  /** measured / peer, unless the row states one itself (the median over interleaved rounds). */
  ratio?: number
  /**
   * The ratio must be at most `max` or at least `min`. Without a peer the value itself is judged: for bytes and for
   * seconds that time-outs decide, never for how quick a machine was.
   */
  bar?: { max?: number; min?: number }
  /** Beyond the bar; shown, never enforced. */
  goal?: { max?: number; min?: number }
  note?: string
}

/** Names of options, with their values. */
export type BenchOptions = Readonly<Record<string, string | undefined>>

/** An option that a bench cannot take; the message says what it takes. */
export class OptionFault extends Error {}

export interface BenchResult {
  rows: BenchRow[]
  /** Markdown that is kept below the rows. */
  more?: string
}

export interface Bench {
  name: string
  purpose: string
  /** The page of docs/ that keeps its table; `benchmarks.md` unless it has its own. */
  page?: string
  /** Options of its own, as `--name VALUE`, and what each takes. */
  options?: Readonly<Record<string, string>>
  /** Throws OptionFault. */
  run(report: (progress: string) => void, options?: BenchOptions): Promise<BenchRow[] | BenchResult>
}

/** The figure that the bar is held against. */
export function figureOf(row: BenchRow): number {
  return row.ratio ?? (row.peer ? row.measured / row.peer.value : row.measured)
}

export function passes(row: BenchRow, bar = row.bar): boolean {
  const figure = figureOf(row)
  if (!Number.isFinite(figure)) return false
  return figure <= (bar?.max ?? Number.POSITIVE_INFINITY) && figure >= (bar?.min ?? Number.NEGATIVE_INFINITY)
}

/** The value below which `share` (0..1) of the samples lie. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}

export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5)
}
