/**
 * Lets the event loop turn now and then. Handlers that wait for nothing would keep it until no record is left: no commit
 * would go out meanwhile, no heartbeat, and nothing would be fetched.
 */

const turnMs = 5

export class LoopTurns {
  readonly #goOn: () => void
  #endsAt = 0
  #turning = false

  /** `goOn` starts what could not go on before the turn. */
  constructor(goOn: () => void) {
    this.#goOn = goOn
  }

  /** True while work may go on at once; if not, `goOn` is called behind the next turn. */
  mayGoOn(): boolean {
    if (performance.now() < this.#endsAt) return true
    if (!this.#turning) setImmediate(() => this.#begin())
    this.#turning = true
    return false
  }

  #begin(): void {
    this.#turning = false
    this.#endsAt = performance.now() + turnMs
    this.#goOn()
  }
}
