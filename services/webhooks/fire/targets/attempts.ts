/** Follows webhooks.attempts: counts every attempt in the metrics and keeps the last of each target for health. */

import type { Logger } from 'pino'
import { Counter, Histogram, type Registry } from 'prom-client'
import type { Log } from '#engines/event-log/port.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Codec, Publisher } from '#runtime/publish/messages.ts'
import type { WebhookAttempt } from '#schemas/types.ts'
import { createLastSeen, followAttempts, type LastSeen } from '../../attempts/read-attempts.ts'
import type { WatchedTargets } from '../../targets/targets-file.ts'

const outcomes = ['success', 'retry', 'dead_letter'] as const

export interface Attempts extends Closeable {
  /** What a courier last reported of the target; null before anything. */
  last(target: string): LastSeen | null
}

interface AttemptsParts {
  engines: { eventLog: Log }
  publisher: Pick<Publisher, 'locationOf'>
  codec: Codec
  log: Logger
  metrics: Registry
  targets: Pick<WatchedTargets, 'current' | 'onChange'>
}

/** Follows the attempts of every courier from now on: metrics count attempts since the start. */
export async function openAttempts(parts: AttemptsParts): Promise<Attempts> {
  const { targets } = parts
  const metrics = createAttemptMetrics(parts.metrics)
  const lastSeen = createLastSeen()
  const followed = new Set<string>()
  let named = new Set<string>()
  function follow(): void {
    const now = new Set(targets.current().targets.keys())
    for (const target of named) {
      if (now.has(target)) continue
      metrics.forget(target)
      lastSeen.forget(target)
    }
    for (const target of now) metrics.begin(target)
    named = now
  }
  function take(attempt: WebhookAttempt): void {
    // A courier may still report a target that was removed: its series would stay for ever.
    if (!named.has(attempt.target)) return
    metrics.take(attempt)
    followed.add(attempt.target)
    lastSeen.take(attempt)
  }
  /** Attempts from before this start count for health, as long as nothing newer came. */
  function takeEarlier(attempt: WebhookAttempt): void {
    if (named.has(attempt.target) && !followed.has(attempt.target)) lastSeen.take(attempt)
  }

  follow()
  targets.onChange(follow)
  const following = await followAttempts({ ...parts, ...parts.engines }, (attempt, isEarlier) =>
    isEarlier ? takeEarlier(attempt) : take(attempt),
  )
  return { last: lastSeen.last, close: following.close }
}

function createAttemptMetrics(registry: Registry) {
  const delivered = new Counter({
    name: 'webhook_delivered_total',
    help: 'Attempts by their outcome: success, retry (it will be tried again) or dead_letter (given up)',
    labelNames: ['target', 'status'],
    registers: [registry],
  })
  const latency = new Histogram({
    name: 'webhook_latency_seconds',
    help: 'Time of one call of a target, however it ended',
    labelNames: ['target'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  })
  return {
    /** A series that is absent until its first event hides that event from rates. */
    begin(target: string) {
      for (const status of outcomes) delivered.inc({ target, status }, 0)
      latency.zero({ target })
    },
    forget(target: string) {
      for (const status of outcomes) delivered.remove({ target, status })
      latency.remove({ target })
    },
    take({ target, kind, took_ms }: WebhookAttempt) {
      const status = outcomes.find((outcome) => outcome === kind)
      if (status === undefined) return
      delivered.inc({ target, status })
      if (took_ms !== null) latency.observe({ target }, took_ms / 1_000)
    },
  }
}
