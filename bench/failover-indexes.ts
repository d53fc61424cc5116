/** Steady upserts in every partition, and how long each record waits until an index has it, as vectors.progress says. */

import { vectorDimension } from '#engines/vectors/collections.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { openProgressTail, type ProgressTail } from '#services/vectors/write/progress.ts'
import { type Index, indexes, listGenerations } from '#services/vectors/write/rebuild.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { eventually } from '../test/support/eventually.ts'

interface IndexLoad extends Closeable {
  /** Begins a new measurement. */
  begin(): void
  /** The longest that a record of any partition has waited for this index since `begin`, in seconds. */
  worst(index: Index): number
  /** Resolves when nothing waits for this index that was written more than a second ago. */
  even(index: Index): Promise<void>
}

const everyMs = 250
const lookEveryMs = 20
const evenMs = 1_000
const evenWithinMs = 90_000

/** Records that are acknowledged and not in the index, by partition, oldest first. */
type Waiting = { offset: number; at: number }[][]

class Watch {
  readonly waiting: Waiting
  worstMs = 0
  readonly #applied: () => Map<number, number>

  constructor(partitions: number, applied: () => Map<number, number>) {
    this.waiting = Array.from({ length: partitions }, () => [])
    this.#applied = applied
  }

  /** The longest that something waits now, in ms. */
  look(): number {
    const now = performance.now()
    const applied = this.#applied()
    let oldestMs = 0
    for (const [partition, records] of this.waiting.entries()) {
      const through = applied.get(partition) ?? -1
      if (records[0]) this.worstMs = Math.max(this.worstMs, now - records[0].at)
      while (records[0] && records[0].offset <= through) records.shift()
      if (records[0]) oldestMs = Math.max(oldestMs, now - records[0].at)
    }
    return oldestMs
  }
}

/** Four records a second in each partition. The indexes exist already. */
export async function openIndexLoad({
  engines,
  codec,
  publisher,
  log,
}: Pick<Platform, 'engines' | 'codec' | 'publisher' | 'log'>): Promise<IndexLoad> {
  const { eventLog, relational } = engines
  const { epoch, partitions } = publisher.locationOf(vectorsCommands)
  const tails: ProgressTail[] = []
  const watches = new Map<Index, Watch>()
  for (const index of indexes) {
    const tail = await openProgressTail({ index, eventLog, codec, publisher, log })
    tails.push(tail)
    const [live] = (await listGenerations(relational, index)).filter(({ state }) => state === 'live')
    const applied = () => tail.appliedThrough(live!.generation, epoch)
    watches.set(index, new Watch(partitions, applied))
  }
  const keys = onePerPartition(partitions)
  const value = {
    vector: Buffer.alloc(vectorDimension * 4, 62),
    payload: '{}',
    embedder: null,
    making: null,
    expires_at: null,
  }

  async function write(): Promise<void> {
    const positions = await publisher.publish(
      vectorsCommands,
      keys.map((key) => ({ key, value })),
      { timeoutMs: 10_000 },
    )
    const at = performance.now()
    for (const watch of watches.values()) {
      for (const { partition, offset } of positions) watch.waiting[partition]!.push({ offset, at })
    }
  }
  let fault: unknown
  const writing = setInterval(
    () =>
      void write().catch((error) => {
        fault = error
      }),
    everyMs,
  )
  const looking = setInterval(() => {
    for (const watch of watches.values()) watch.look()
  }, lookEveryMs)
  return {
    begin() {
      for (const watch of watches.values()) watch.worstMs = 0
    },
    worst: (index) => watches.get(index)!.worstMs / 1_000,
    async even(index) {
      const watch = watches.get(index)!
      await eventually(`${index.writer} is even`, () => watch.look() < evenMs, evenWithinMs)
      if (fault) throw fault
    },
    async close() {
      clearInterval(writing)
      clearInterval(looking)
      await Promise.all(tails.map((tail) => tail.close()))
    },
  }
}

/** The key of one point in each partition. */
function onePerPartition(partitions: number): { collection: string; id: string }[] {
  const keys = new Map<number, { collection: string; id: string }>()
  for (let n = 0; keys.size < partitions; n++) {
    const key = { collection: 'knowledgebase', id: `failover-${n}` }
    const partition = partitionOf(Buffer.from(vectorsCommands.key(key)), partitions)
    if (!keys.has(partition)) keys.set(partition, key)
  }
  return [...keys.values()]
}
