/** Calls a function again and again: often while work waits, seldom while none does. */

/** Between two calls while nothing waits. */
const restMs = 5_000

export class Ticker {
  readonly #everyMs: number
  readonly #tick: () => boolean
  #timer: NodeJS.Timeout | undefined
  #rests = false
  #stopped = false

  /** `tick` says whether work waits. */
  constructor(everyMs: number, tick: () => boolean) {
    this.#everyMs = everyMs
    this.#tick = tick
  }

  start(): void {
    this.#rests = !this.#tick()
    this.#after(this.#rests ? restMs : this.#everyMs)
  }

  /** Work has come. */
  wake(): void {
    if (!this.#rests) return
    this.#rests = false
    this.#after(this.#everyMs)
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  #after(ms: number): void {
    clearTimeout(this.#timer)
    if (!this.#stopped) this.#timer = setTimeout(() => this.start(), ms)
  }
}
