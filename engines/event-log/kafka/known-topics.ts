/**
 * Remembers which topics the cluster had a short while ago: a broker that does not know one of them may only be late.
 */

export interface KnownTopics {
  /** The cluster has it, or was just asked to create it. */
  add(topic: string): void
  forget(topic: string): void
  /** True for a topic that was known so recently that the answer of one broker does not prove that it is gone. */
  has(topic: string): boolean
}

/** Brokers learn of each other's changes within this time, also while they start or change their leader. */
const propagationMs = 5_000

export function createKnownTopics(): KnownTopics {
  const seen = new Map<string, number>()
  return {
    add(topic) {
      seen.set(topic, performance.now())
    },
    forget: (topic) => void seen.delete(topic),
    has(topic) {
      const at = seen.get(topic)
      if (at === undefined) return false
      if (performance.now() - at < propagationMs) return true
      seen.delete(topic)
      return false
    },
  }
}
