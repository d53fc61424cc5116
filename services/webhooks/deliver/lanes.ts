/** Which lane a delivery belongs to, and what was settled last in it. */

import type { WebhookDelivery } from '#schemas/types.ts'
import type { WebhookTarget, WebhookTargets } from '../targets/target.ts'
import { PreviousSequences } from './previous-sequences.ts'

type Ordering = WebhookTarget['ordering']

/** Where a delivery is in the log. */
export interface Place {
  partition: number
  offset: number
}

export class Lanes {
  readonly #targets: () => WebhookTargets
  readonly #previous = new PreviousSequences()
  /** By target: the ordering that its unsettled records follow. */
  readonly #orderings = new Map<string, Ordering>()

  constructor(targets: () => WebhookTargets) {
    this.#targets = targets
  }

  /** Another ordering begins when nothing of the old one is unsettled: `fresh`. */
  orderingOf(target: string, fresh = false): Ordering {
    const known = this.#orderings.get(target)
    if (known !== undefined && !fresh) return known
    const ordering = this.#targets().targets.get(target)?.ordering ?? known ?? 'target'
    if (ordering !== known) this.#orderings.set(target, ordering)
    return ordering
  }

  laneOf({ target, agent }: WebhookDelivery): string {
    return this.orderingOf(target) === 'agent' ? `${target}\n${agent}` : target
  }

  /** Null where nothing is known, and for a replay, which is in no lane. */
  previousOf(delivery: WebhookDelivery, { partition }: Place): number | null {
    return delivery.replay ? null : this.#previous.of(partition, this.laneOf(delivery))
  }

  settled(delivery: WebhookDelivery, { partition, offset }: Place): void {
    if (delivery.replay) return
    this.#previous.note(partition, this.laneOf(delivery), delivery.sequence ?? offset)
  }

  /** Another member may have delivered in this partition. */
  forget(partition: number): void {
    this.#previous.forget(partition)
  }
}
