/**
 * Keeps what the brokers say of topics, their settings and the coordinators of groups: one rule of when it is asked for
 * again, one of when it counts no more.
 */

interface Entry<V> {
  value: V
  askedAt: number
  forgotten: boolean
  /** Since it was asked for. */
  wanted: boolean
}

/** Asked for again after the first, not used any more after the second. */
const ageMs = { fresh: 5_000, known: 30_000 }
/** Brokers learn of each other's changes within this time, also while they start or change their leader. */
const propagationMs = 5_000

/** `ask` answers for those of the names that the broker knows. */
export function createKept<V>(ask: (names: string[]) => Promise<Map<string, V>>) {
  const kept = new Map<string, Entry<V>>()
  const asking = new Map<string, Promise<V | null>>()

  /** One question at a time for each name. */
  function now(name: string, more: string[] = []): Promise<V | null> {
    const running = asking.get(name)
    if (running) return running
    const askedAt = performance.now()
    const names = [name, ...more.filter((other) => other !== name && !asking.has(other))]
    const answers = ask(names)
    for (const one of names) {
      const answer = answers
        .then((found) => take(one, found.get(one), askedAt))
        .finally(() => asking.delete(one))
      answer.catch(() => {})
      asking.set(one, answer)
    }
    return asking.get(name)!
  }
  /** One broker's "unknown" shortly after a sighting is no proof that the thing is gone. */
  function take(name: string, value: V | undefined, askedAt: number): V | null {
    if (value !== undefined) {
      kept.set(name, { value, askedAt, forgotten: false, wanted: false })
      return value
    }
    const before = kept.get(name)
    if (before && askedAt - before.askedAt < propagationMs) {
      throw new Error(`a broker does not know ${name} yet`)
    }
    kept.delete(name)
    return null
  }
  const refresh = (name: string, more?: string[]) => void now(name, more).catch(() => {})
  const wantedNames = () => [...kept].filter(([, { wanted }]) => wanted).map(([name]) => name)
  return {
    /**
     * Null when the cluster has no such thing. What is known for 5 s is asked for again meanwhile, so that a broker that does
     * not answer holds nobody up; all names that were wanted since are then one question. What is known for 30 s is not used
     * any more.
     */
    async get(name: string): Promise<V | null> {
      const known = kept.get(name)
      const age = known ? performance.now() - known.askedAt : 0
      if (!known || known.forgotten || age > ageMs.known) return now(name)
      known.wanted = true
      if (age > ageMs.fresh) refresh(name, wantedNames())
      return known.value
    },
    /** Asks, whatever is known. */
    now: (name: string): Promise<V | null> => now(name),
    /** It may have changed: asks, while `get` goes on with the kept answer. */
    refresh: (name: string): void => refresh(name),
    /** It has changed, or a call that relied on it failed: the next `get` asks. */
    forget(name: string): void {
      const known = kept.get(name)
      if (known) known.forgotten = true
    },
    /** It was removed by this process: the next broker that does not know it is believed. */
    remove: (name: string): void => void kept.delete(name),
  }
}
