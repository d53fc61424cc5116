/** Targets that no file names although records wait for them: how long these records still wait. */

import type { WebhookTargets } from '../targets/target.ts'

export class UnknownTargets {
  readonly #waitMs: number
  readonly #since = new Map<string, { atMs: number; partition: number }>()

  constructor(waitMs: number) {
    this.#waitMs = waitMs
  }

  /**
   * Milliseconds that are left to a record that was appended at `appendedMs`; `first` when nobody asked before. No record
   * waits shorter than the others did: the relay may know a target a moment sooner.
   */
  left(target: string, partition: number, appendedMs: number): { leftMs: number; first: boolean } {
    const nowMs = Date.now()
    const known = this.#since.get(target)
    if (!known) this.#since.set(target, { atMs: nowMs, partition })
    const sinceMs = Math.max(known?.atMs ?? nowMs, Math.min(appendedMs, nowMs))
    return { leftMs: sinceMs + this.#waitMs - nowMs, first: !known }
  }

  names(): string[] {
    return [...this.#since.keys()]
  }

  /** Where records of these wait. */
  partitionsOf(names: readonly string[]): number[] {
    return names.flatMap((name) => this.#since.get(name)?.partition ?? [])
  }

  /** Forgets those that are named now; returns the partitions where records wait. */
  renew({ targets }: WebhookTargets): number[] {
    const partitions = [...this.#since.values()].map(({ partition }) => partition)
    for (const target of this.#since.keys()) if (targets.has(target)) this.#since.delete(target)
    return partitions
  }
}
