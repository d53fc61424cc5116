/** The states of all targets of a courier, one for each target in each partition. */

import type { LookupFunction } from 'node:net'
import type { WebhookTarget } from '../targets/target.ts'
import { TargetState } from './target-state.ts'

export class TargetStates {
  readonly #lookup: LookupFunction
  readonly #all = new Map<string, TargetState>()
  /** Of each partition the one that was asked for last: nearly always its only one. */
  readonly #last = new Map<number, TargetState>()

  constructor(lookup: LookupFunction) {
    this.#lookup = lookup
  }

  of(target: WebhookTarget, partition: number): TargetState {
    const last = this.#last.get(partition)
    if (last?.target === target) return last
    const key = `${partition}/${target.name}`
    let state = this.#all.get(key)
    if (!state) {
      state = new TargetState(target, partition, this.#lookup)
      this.#all.set(key, state)
    }
    this.#last.set(partition, state)
    return state
  }

  all(): TargetState[] {
    return [...this.#all.values()]
  }

  /** Closes and removes the others. */
  keep(wanted: (state: TargetState) => boolean): void {
    for (const [key, state] of this.#all) {
      if (wanted(state)) continue
      state.close()
      this.#all.delete(key)
      if (this.#last.get(state.partition) === state) this.#last.delete(state.partition)
    }
  }
}
