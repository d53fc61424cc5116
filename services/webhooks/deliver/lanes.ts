/** The lane of a delivery, and the last one settled in it. */

import type { WebhookDelivery } from '#schemas/types.ts'
import type { WebhookTarget, WebhookTargets } from '../targets/target.ts'

type Ordering = WebhookTarget['ordering']

/** Where a delivery is in the log. */
interface Place {
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

/** Most lanes of one partition. */
const lanesMax = 10_000
/** Bound of all partitions together. */
const bytesMax = 16 * 1024 * 1024
/** An entry of a map, without the text of its lane. */
const entryBytes = 100

interface Sequences {
  /** By lane; the least recently used one is first. */
  lanes: Map<string, number>
  newest: string | null
  bytes: number
}

export class PreviousSequences {
  /** The least recently used one is first. */
  readonly #partitions = new Map<number, Sequences>()
  readonly #bytesMax: number
  #bytes = 0

  constructor(max = bytesMax) {
    this.#bytesMax = max
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Null: nothing is known. */
  of(partition: number, lane: string): number | null {
    return this.#partitions.get(partition)?.lanes.get(lane) ?? null
  }

  note(partition: number, lane: string, sequence: number): void {
    const known = this.#partitions.get(partition) ?? { lanes: new Map(), newest: null, bytes: 0 }
    const { lanes } = known
    // Deleting and setting again makes the map rehash every few times: only where it changes the order.
    if (lane !== known.newest) {
      this.#partitions.delete(partition)
      this.#partitions.set(partition, known)
      if (!lanes.delete(lane)) this.#count(known, bytesOf(lane))
    }
    known.newest = lane
    lanes.set(lane, sequence)
    if (lanes.size > lanesMax) this.#forgetLane(known)
    while (this.#bytes > this.#bytesMax) this.#forgetOldest()
  }

  /** Another member may have delivered in this partition meanwhile. */
  forget(partition: number): void {
    this.#bytes -= this.#partitions.get(partition)?.bytes ?? 0
    this.#partitions.delete(partition)
  }

  #forgetOldest(): void {
    for (const [partition, known] of this.#partitions) {
      this.#forgetLane(known)
      if (known.lanes.size === 0) this.#partitions.delete(partition)
      return
    }
  }

  /** A lane that is not known states nothing to its receiver. */
  #forgetLane(known: Sequences): void {
    const lane = known.lanes.keys().next().value as string
    known.lanes.delete(lane)
    this.#count(known, -bytesOf(lane))
  }

  #count(known: Sequences, bytes: number): void {
    known.bytes += bytes
    this.#bytes += bytes
  }
}

function bytesOf(lane: string): number {
  return lane.length * 2 + entryBytes
}
