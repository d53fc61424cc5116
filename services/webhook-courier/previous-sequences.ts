/** The sequence that was settled last in each lane, so that a receiver can tell a gap; bounded for each partition. */

const lanesMax = 10_000

export class PreviousSequences {
  readonly #partitions = new Map<number, Map<string, number>>()

  /** Null: nothing is known. */
  of(partition: number, lane: string): number | null {
    return this.#partitions.get(partition)?.get(lane) ?? null
  }

  note(partition: number, lane: string, sequence: number): void {
    let lanes = this.#partitions.get(partition)
    if (!lanes) {
      lanes = new Map()
      this.#partitions.set(partition, lanes)
    }
    // The lane that was used longest ago stands first.
    if (!lanes.delete(lane) && lanes.size >= lanesMax) lanes.delete(lanes.keys().next().value as string)
    lanes.set(lane, sequence)
  }

  /** Another member may have gone on in the meantime. */
  forget(partition: number): void {
    this.#partitions.delete(partition)
  }
}
