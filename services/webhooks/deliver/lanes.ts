/** The lane of a delivery, the last one settled in it, and the deliveries that operators gave up. */

import { LRUCache } from 'lru-cache'
import type { SqlExecutor } from '#engines/relational/port.ts'
import type { WebhookDelivery } from '#schemas/types.ts'
import type { WebhookTarget, WebhookTargets } from '../targets/targets-file.ts'

type Ordering = WebhookTarget['ordering']

/** Where a delivery is in the log. */
interface Place {
  partition: number
  offset: number
}

/** Bound of the last sequences of all lanes. */
const bytesMax = 16 * 1024 * 1024
/** An entry, without the text of its lane. */
const entryBytes = 200

export class Lanes {
  readonly #targets: () => WebhookTargets
  /** By partition and lane. A lane that is not known states nothing to its receiver. */
  readonly #previous: LRUCache<string, number>
  /** By target: the ordering that its unsettled records follow. */
  readonly #orderings = new Map<string, Ordering>()

  constructor(targets: () => WebhookTargets, maxSize = bytesMax) {
    this.#targets = targets
    const sizeCalculation = (_: number, key: string) => key.length * 2 + entryBytes
    this.#previous = new LRUCache({ maxSize, sizeCalculation })
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
    if (delivery.replay) return null
    return this.#previous.get(`${partition} ${this.laneOf(delivery)}`) ?? null
  }

  settled(delivery: WebhookDelivery, { partition, offset }: Place): void {
    if (delivery.replay) return
    this.#previous.set(`${partition} ${this.laneOf(delivery)}`, delivery.sequence ?? offset)
  }

  /** Another member may have delivered in these partitions. */
  forget(partitions: readonly number[]): void {
    const gone = new Set(partitions.map(String))
    for (const key of this.#previous.keys()) {
      if (gone.has(key.slice(0, key.indexOf(' ')))) this.#previous.delete(key)
    }
  }
}

/** The records that operators gave up, read from the rows of the targets, and only while some head waits. */
export class Skips {
  readonly #through = new Map<string, Place>()
  readonly #relational: SqlExecutor

  constructor(relational: SqlExecutor) {
    this.#relational = relational
  }

  /** True when the record at this place was given up. */
  covers(target: string, { partition, offset }: Place): boolean {
    const through = this.#through.get(target)
    return through !== undefined && through.partition === partition && offset <= through.offset
  }

  /** Reads the rows of these targets; returns the targets whose row changed. */
  async refresh(targets: string[]): Promise<string[]> {
    if (targets.length === 0) return []
    const { rows } = await this.#relational.query<Place & { name: string }>(
      `select name, partition, skip_through as "offset" from platform.webhook_targets
       where name = any($1::text[]) and skip_through is not null`,
      [targets],
    )
    const changed = rows.filter(({ name, ...place }) => !this.covers(name, place))
    for (const { name, ...place } of changed) this.#through.set(name, place)
    return changed.map(({ name }) => name)
  }
}
