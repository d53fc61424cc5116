/** Follows dead letters, so that the metrics say how many wait to be replayed or discarded. */

import type { Logger } from 'pino'
import { Gauge, type Registry } from 'prom-client'
import type { EventLog, StoredRecord } from '#engines/event-log/port.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { catalog, deadLettersOf } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import type { Publisher } from './messages.ts'

const metric = 'flotilla_waiting_dead_letters'
/** Of one topic: what is beyond is not counted. */
const countedMax = 100_000

export interface DeadLetterCountsParts {
  eventLog: EventLog
  publisher: Pick<Publisher, 'locationOf'>
  metrics: Registry
  log: Logger
}

/** The topics whose records these services may park. */
export function parkedBy(services: readonly string[]): Topic[] {
  return catalog.filter(
    (topic) => topic.deadLetters && topic.readers.some((one) => services.includes(one.service)),
  )
}

/** Counts in the background; a topic that cannot be followed has no figure, which is logged. */
export async function followDeadLetters(
  parts: DeadLetterCountsParts,
  topics: readonly Topic[],
): Promise<Closeable> {
  const waiting = new Map<string, Set<string>>()
  exposeCounts(parts.metrics, waiting)
  const tails = await Promise.all(topics.map((topic) => followOne(parts, topic, waiting)))
  return {
    async close() {
      await Promise.all(tails.map((tail) => tail?.close()))
    },
  }
}

async function followOne(
  { eventLog, publisher, log }: DeadLetterCountsParts,
  topic: Topic,
  waiting: Map<string, Set<string>>,
): Promise<Closeable | undefined> {
  const keys = new Set<string>()
  const take = ({ key, value }: StoredRecord) => {
    if (key === null) return
    if (value === null) keys.delete(key.toString())
    else if (keys.size < countedMax) keys.add(key.toString())
  }
  try {
    const { physicalName } = publisher.locationOf(deadLettersOf(topic))
    const tail = await eventLog.tail({
      topic: physicalName,
      from: 'beginning',
      records: (_partition, records) => records.forEach(take),
    })
    waiting.set(topic.name, keys)
    return tail
  } catch (error) {
    log.warn({ topic: topic.name, reason: describeError(error) }, 'dead-letters.not-counted')
    return undefined
  }
}

function exposeCounts(registry: Registry, waiting: ReadonlyMap<string, ReadonlySet<string>>): void {
  registry.removeSingleMetric(metric)
  new Gauge({
    name: metric,
    help: 'Dead letters that wait to be replayed or discarded, by the topic of their records',
    labelNames: ['topic'],
    registers: [registry],
    collect() {
      for (const [topic, keys] of waiting) this.set({ topic }, keys.size)
    },
  })
}
