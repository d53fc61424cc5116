/** Figures of the runs of this process. */

import { Counter, Gauge, type Registry } from 'prom-client'
import { sharedMetric } from '#runtime/observe/metrics.ts'
import type { EndedRun } from '../state/end.ts'

interface RunMetrics {
  ended(run: EndedRun): void
}

/** `running` is asked at every scrape. */
export function createRunMetrics(registry: Registry, running: () => number): RunMetrics {
  const ended = sharedMetric(
    registry,
    'flotilla_runs_ended_total',
    (common) =>
      new Counter({
        ...common,
        help: 'Runs that ended here, by agent (slug), what started them, and status',
        labelNames: ['agent', 'trigger', 'status'],
      }),
  )
  registry.removeSingleMetric('flotilla_runs_in_flight_calls')
  new Gauge({
    name: 'flotilla_runs_in_flight_calls',
    help: 'Runs that this process works on now',
    registers: [registry],
    collect() {
      this.set(running())
    },
  })
  return {
    ended: ({ slug, trigger, status }) => ended.inc({ agent: slug, trigger, status }),
  }
}
