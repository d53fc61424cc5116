/** Remembers who leads the partitions of topics, and asks again before that is old. */

export interface PartitionLeader {
  partition: number
  /** A broker's node id; -1 while there is none. */
  leader: number
  /** Of the partition's topic: another one when a topic was deleted and made again under its name. */
  topicId: string
}

export interface KnownLeaders {
  /**
   * By partition number; null when the cluster has no such topic. What is known for 5 s is asked for again meanwhile,
   * so that a broker that does not answer holds nobody up; all topics that were wanted since are then one question.
   */
  leaders(topic: string): Promise<PartitionLeader[] | null>
  /** A leader may have moved: asks, while `leaders` goes on with what is known. */
  refreshLeaders(topic: string): void
  /** A leader has moved, or a broker is gone: the next `leaders` asks. */
  forgetLeaders(topic: string): void
}

interface Known {
  askedAt: number
  leaders: PartitionLeader[]
  /** Since they were asked for. */
  wanted: boolean
}

/** Asked for again after the first, not used any more after the second. */
const ageMs = { fresh: 5_000, known: 30_000 }

/** `ask` answers for each of the topics, with null for one that the cluster does not have. */
export function createKnownLeaders(
  ask: (topics: string[]) => Promise<Map<string, PartitionLeader[] | null>>,
): KnownLeaders {
  const topics = new Map<string, Known>()
  const underWay = new Map<string, Promise<PartitionLeader[] | null>>()

  /** One question at a time for each topic. */
  function learn(topic: string, more: string[] = []): Promise<PartitionLeader[] | null> {
    const known = underWay.get(topic)
    if (known) return known
    const askedAt = performance.now()
    const names = [topic, ...more.filter((other) => other !== topic && !underWay.has(other))]
    const answers = ask(names)
    for (const name of names) {
      const answer = answers
        .then((found) => {
          const leaders = found.get(name) ?? null
          if (leaders) topics.set(name, { askedAt, leaders, wanted: false })
          else topics.delete(name)
          return leaders
        })
        .finally(() => underWay.delete(name))
      answer.catch(() => {})
      underWay.set(name, answer)
    }
    return underWay.get(topic)!
  }
  const refresh = (topic: string, more: string[] = []) => void learn(topic, more).catch(() => {})
  const wantedTopics = () => [...topics].filter(([, { wanted }]) => wanted).map(([name]) => name)
  return {
    async leaders(topic) {
      const known = topics.get(topic)
      const age = known ? performance.now() - known.askedAt : 0
      if (!known || age > ageMs.known) return learn(topic)
      known.wanted = true
      if (age > ageMs.fresh) refresh(topic, wantedTopics())
      return known.leaders
    },
    refreshLeaders: (topic) => refresh(topic),
    forgetLeaders: (topic) => void topics.delete(topic),
  }
}
