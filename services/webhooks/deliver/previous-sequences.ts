/** The last settled sequence of each lane, sent along so that receivers can notice a gap; bounded in bytes. */

/** Of one partition. */
const lanesMax = 10_000
/** Of all partitions together. */
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
