/** The keys of outbox rows that their topic refused: each rests for a growing time before its oldest row is tried again. */

const restMsMin = 1_000
const restMsMax = 300_000
/** With more than these, reading stops at the next row that is refused: something else is wrong then. */
const keysMax = 10_000

interface Rest {
  refusals: number
  /** By `performance.now()`. */
  endsAt: number
}

/** Lives as long as the process: a new tenure does not try everything again at once. */
export class RefusedKeys {
  readonly #rests = new Map<string, Rest>()

  /** Keys of which a row was refused and none published since. */
  get size(): number {
    return this.#rests.size
  }

  /** Keys that rest now. */
  resting(): Set<string> {
    const now = performance.now()
    return new Set([...this.#rests].flatMap(([key, { endsAt }]) => (endsAt > now ? [key] : [])))
  }

  full(): boolean {
    return this.#rests.size >= keysMax
  }

  /** A row of the key was refused. Returns for how long the key rests. */
  refused(key: string): number {
    const refusals = (this.#rests.get(key)?.refusals ?? 0) + 1
    const restMs = Math.min(restMsMax, restMsMin * 2 ** (refusals - 1))
    this.#rests.set(key, { refusals, endsAt: performance.now() + restMs })
    return restMs
  }

  /** A row of the key was published. */
  published(key: string): void {
    this.#rests.delete(key)
  }
}
