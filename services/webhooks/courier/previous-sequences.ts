/** The sequence that was settled last in each lane, so that a receiver can tell a gap; bounded for each partition. */

const lanesMax = 10_000

interface Sequences {
  /** By lane; the one that was used longest ago stands first. */
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
    // To delete and set again makes the map anew every few times: only where it changes the order.
    if (lane !== known.newest && !lanes.delete(lane) && lanes.size >= lanesMax) {
      lanes.delete(lanes.keys().next().value as string)
    }
    known.newest = lane
    lanes.set(lane, sequence)
  }

  /** Another member may have gone on in the meantime. */
  forget(partition: number): void {
    this.#partitions.delete(partition)
  }
}
