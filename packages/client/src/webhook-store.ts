/** A receiver's memory of finished deliveries: keys against duplicates, the last sequence of each lane. */

export interface FinishedDelivery {
  /** The agent, or '' where one target is one lane. */
  lane: string
  /** The last sequence of the lane, also when it is lower than before; null leaves it where it was. */
  sequence: number | null
  idempotencyKey: string
}

/**
 * Keep it where the effects of your handler go, and write it in the same transaction: then nothing is handled twice, not
 * even after a crash. One store belongs to one target.
 */
export interface ReceiverStore {
  wasFinished(idempotencyKey: string): boolean | Promise<boolean>
  /** The last finished sequence of this lane; undefined when nothing is known of it. */
  lastSequence(lane: string): number | undefined | Promise<number | undefined>
  /** Keeps key and sequence together. */
  finish(delivery: FinishedDelivery): void | Promise<void>
}

export interface MemoryStoreLimits {
  /** Idempotency keys; the oldest are dropped first. Default 100,000. */
  keysMax?: number
  /** Default 10,000; the next gap of a dropped lane is not noticed. */
  lanesMax?: number
}

/** A store that lasts as long as the process, with bounded memory. */
export function createMemoryStore({
  keysMax = 100_000,
  lanesMax = 10_000,
}: MemoryStoreLimits = {}): ReceiverStore {
  const keys = new Set<string>()
  const lanes = new Map<string, number>()
  return {
    wasFinished: (idempotencyKey) => keys.has(idempotencyKey),
    lastSequence: (lane) => lanes.get(lane),
    finish({ lane, sequence, idempotencyKey }) {
      // Removed first, so that this key becomes the newest.
      keys.delete(idempotencyKey)
      keys.add(idempotencyKey)
      if (keys.size > keysMax) keys.delete(keys.values().next().value!)
      if (sequence === null) return
      lanes.delete(lane)
      lanes.set(lane, sequence)
      if (lanes.size > lanesMax) lanes.delete(lanes.keys().next().value!)
    },
  }
}
