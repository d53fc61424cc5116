/** Which topics the cluster was seen to hold a moment ago: a broker that does not know one of them may only be late. */

export interface Sightings {
  /** The cluster holds it, or was just told to make it. */
  saw(topic: string): void
  forget(topic: string): void
  /** True for a topic that was seen so recently that no single broker's word is proof that it is gone. */
  recently(topic: string): boolean
}

/** Brokers hear of each other's changes within this time, also while they start or change their leader. */
const heardOfWithinMs = 5_000

export function createSightings(): Sightings {
  const seen = new Map<string, number>()
  return {
    saw(topic) {
      seen.set(topic, performance.now())
    },
    forget: (topic) => void seen.delete(topic),
    recently(topic) {
      const at = seen.get(topic)
      if (at === undefined) return false
      if (performance.now() - at < heardOfWithinMs) return true
      seen.delete(topic)
      return false
    },
  }
}
