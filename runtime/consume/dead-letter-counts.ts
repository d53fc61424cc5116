/** Follows dead letters, so that the metrics say how many wait to be replayed or discarded. */

import { Gauge, type Registry } from 'prom-client'
import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { catalog } from '#topics/catalog.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'
import type { Topic } from '#topics/topic.ts'
import { type FollowParts, followRecords } from '../follow/follow-topic.ts'

const metric = 'flotilla_waiting_dead_letters'
/** Counting stops at this many letters of one topic. */
const countedMax = 100_000
/** The first look at the metrics waits this long for the counts. */
const firstCountMs = 1_000

/** The topics whose records these services may park. */
export function parkedBy(services: readonly string[]): Topic[] {
  return catalog.filter(
    (topic) => topic.deadLetters && topic.readers.some((one) => services.includes(one.service)),
  )
}

/**
 * Counts in the background from the first look at the metrics on: where nobody looks, nothing is read. A topic that
 * cannot be followed has no figure, which is logged.
 */
export function followDeadLetters(
  parts: FollowParts & { metrics: Registry },
  topics: readonly Topic[],
): Closeable {
  const waiting = new Map<string, Set<string>>()
  const tails: Closeable[] = []
  let following: Promise<unknown> | undefined
  let closed = false
  async function follow(topic: Topic): Promise<void> {
    const keys = new Set<string>()
    try {
      const tail = await followRecords(parts, deadLettersOf(topic), {
        from: 'beginning',
        onRecord({ key, value }) {
          if (key === null) return
          if (value === null) keys.delete(key.toString())
          else if (keys.size < countedMax) keys.add(key.toString())
        },
      })
      waiting.set(topic.name, keys)
      if (closed) await tail.close()
      else tails.push(tail)
    } catch (error) {
      parts.log.warn({ topic: topic.name, reason: describeError(error) }, 'dead-letters.not-counted')
    }
  }
  parts.metrics.removeSingleMetric(metric)
  new Gauge({
    name: metric,
    help: 'Dead letters that wait to be replayed or discarded, by the topic of their records',
    labelNames: ['topic'],
    registers: [parts.metrics],
    async collect() {
      if (!closed) following ??= Promise.all(topics.map(follow))
      // A log that is away must not hold up all other figures.
      await Promise.race([following, sleep(firstCountMs)])
      for (const [topic, keys] of waiting) this.set({ topic }, keys.size)
    },
  })
  return {
    // One that is still being opened, because the log is away, is not waited for.
    async close() {
      closed = true
      await Promise.all(tails.map((tail) => tail.close()))
    },
  }
}
