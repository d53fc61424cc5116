/** Caches what appending needs to know of a topic: how many partitions it has and how large a record may be. */

import { AppError } from '#lib/errors.ts'
import { topicNotFound } from './faults.ts'
import { batchFrameBytes, type Topics } from './topics.ts'

export interface TopicFacts {
  partitions: number
  recordBytesMax: number
  /** Bytes of one record batch, frame included. */
  batchBytesMax: number
}

export interface TopicFactsCache {
  /** Throws AppError `not_found` for an unknown topic, `log_unavailable` when no broker answers. */
  get(topic: string): Promise<TopicFacts>
  /** Asks again: the topic may have grown, or be gone. */
  refresh(topic: string): Promise<TopicFacts>
  forget(topic: string): void
}

const keptForMs = 60_000

/** `prepare` is called before a topic's facts are first known. */
export function createTopicFacts(
  topics: Pick<Topics, 'describeTopic'>,
  prepare: (topic: string) => Promise<void>,
): TopicFactsCache {
  const known = new Map<string, { facts: TopicFacts; askedAt: number }>()
  const asking = new Map<string, Promise<TopicFacts>>()

  function refresh(topic: string): Promise<TopicFacts> {
    let call = asking.get(topic)
    if (!call) {
      call = ask(topic).finally(() => asking.delete(topic))
      asking.set(topic, call)
    }
    return call
  }
  async function ask(topic: string): Promise<TopicFacts> {
    const askedAt = performance.now()
    const spec = await topics.describeTopic(topic)
    if (!spec) {
      known.delete(topic)
      throw topicNotFound(topic)
    }
    if (!known.has(topic)) await prepare(topic)
    const { partitions, recordBytesMax } = spec
    const facts = { partitions, recordBytesMax, batchBytesMax: recordBytesMax + batchFrameBytes }
    known.set(topic, { facts, askedAt })
    return facts
  }
  return {
    refresh,
    forget: (topic) => void known.delete(topic),
    async get(topic) {
      const entry = known.get(topic)
      if (!entry) return refresh(topic)
      // Old facts serve while new ones are fetched: appends never wait for them.
      if (performance.now() - entry.askedAt > keptForMs) refresh(topic).catch(ignoreUnavailable)
      return entry.facts
    },
  }
}

function ignoreUnavailable(error: unknown): void {
  if (!(error instanceof AppError)) throw error
}
