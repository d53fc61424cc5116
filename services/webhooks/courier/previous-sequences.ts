/** The last settled sequence of each lane, sent along so that receivers can notice a gap; bounded for each partition. */

const lanesMax = 10_000

interface Sequences {
  /** By lane; the least recently used one is first. */
  lanes: Map<string, number>
  newest: string | null
}

export class PreviousSequences {
  readonly #partitions = new Map<number, Sequences>()

  /** Null: nothing is known. */
  of(partition: number, lane: string): number | null {
    return this.#partitions.get(partition)?.lanes.get(lane) ?? null
  }

  note(partition: number, lane: string, sequence: number): void {
    let known = this.#partitions.get(partition)
    if (!known) {
      known = { lanes: new Map(), newest: null }
      this.#partitions.set(partition, known)
    }
    const { lanes } = known
    // Deleting and setting again makes the map rehash every few times: only where it changes the order.
    if (lane !== known.newest && !lanes.delete(lane) && lanes.size >= lanesMax) {
      lanes.delete(lanes.keys().next().value as string)
    }
    known.newest = lane
    lanes.set(lane, sequence)
  }

  /** Another member may have delivered in this partition meanwhile. */
  forget(partition: number): void {
    this.#partitions.delete(partition)
  }
}
