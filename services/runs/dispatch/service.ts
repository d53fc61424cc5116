/** The worker that runs agents: claims pending runs, calls the nodes, stores and publishes their answers. */

import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { type Static, Type } from 'typebox'
import { loadConfig } from '#lib/config.ts'
import type { Closeable } from '#lib/resource.ts'
import { createOutboxBell, hearNotices, lookSeldomMs } from '#runtime/notices.ts'
import { sharedMetric } from '#runtime/observe/metrics.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { loadNodes, nodeSettings, watchNodes } from '../nodes/nodes.ts'
import type { ScheduleMetrics } from '../schedules/scheduler.ts'
import { createLocalRuns, runsChannel } from '../state/claims.ts'
import { createRunNews } from './news.ts'
import { type DispatcherParts, runTimes } from './parts.ts'

const config = Type.Object({
  ...nodeSettings.properties,
  DRAIN_S: Type.Integer({
    minimum: 0,
    maximum: 3_600,
    default: 310,
    description:
      'how long a run-dispatcher in a process of its own lets runs go on when it is stopped, in seconds',
  }),
  INPUT_WAIT_S: Type.Integer({
    minimum: 1,
    maximum: 31_536_000,
    default: 86_400,
    description:
      'how long a run waits for the answer to its question before it fails with `input_expired`, in seconds',
  }),
  RUN_RETENTION_DAYS: Type.Integer({
    minimum: 1,
    maximum: 3_650,
    default: 30,
    description: 'how long runs, their events and reports are kept after their end, in days',
  }),
})

/** Within a process no notice is lost, and other services start at the same time on the same engine. */
const embeddedTimes = { ...runTimes, firstMs: 1_000, restMs: lookSeldomMs }
/** Those of many runs are published together: each round costs the engines as much as several statements of a run. */
const outboxPauseMs = 250

type Context = ServiceContext<'eventLog' | 'relational', Static<typeof config>>

export const runDispatcher = defineWorker({
  name: 'run-dispatcher',
  purpose:
    'runs agents at their nodes: claims runs, keeps and publishes their events, ends them; fires schedules',
  needs: ['eventLog', 'relational'],
  config,
  check: loadNodes,
  load: () => import('./dispatcher.ts'),
  drainMs: (env) => loadConfig(config, env).DRAIN_S * 1_000,
  start: startRunDispatcher,
})

async function startRunDispatcher(context: Context): Promise<Closeable> {
  const { env, log, engines, publisher, metrics, instanceId, tracing, config: settings } = context
  const [{ startDispatcher }, { startScheduler }, { createNodeCalls }] = await Promise.all([
    import('./dispatcher.ts'),
    import('../schedules/scheduler.ts'),
    import('../nodes/adk/call.ts'),
  ])
  const watched = watchNodes({ env, log })
  const { relational } = engines
  const local = context.shared(createLocalRuns)
  const bell = createOutboxBell({ relational, log, pauseMs: outboxPauseMs })
  const dispatcher = startDispatcher({
    ...createNodeCalls(tracing),
    relational,
    log,
    holder: instanceId,
    nodes: () => watched.current(),
    news: createRunNews(publisher, log, local.readers),
    ringOutbox: bell.ring,
    times: relational.driver === 'embedded' ? embeddedTimes : runTimes,
    tracing,
    drainMs: context.drainMs ?? (() => 0),
    retentionDays: settings.RUN_RETENTION_DAYS,
    inputWaitS: settings.INPUT_WAIT_S,
    ...createRunMetrics(metrics, () => dispatcher.size),
  })
  watched.onChange(dispatcher.probe)
  const notices = hearNotices({ relational, log }, runsChannel, dispatcher.heard)
  const scheduler = startScheduler({
    relational,
    log,
    nodes: () => watched.current(),
    retentionDays: settings.RUN_RETENTION_DAYS,
    firstMs: relational.driver === 'embedded' ? embeddedTimes.firstMs : runTimes.firstMs,
    metrics: createScheduleMetrics(metrics),
  })
  local.takeAtOnce = dispatcher.takeAtOnce
  return {
    async close() {
      local.takeAtOnce = undefined
      await scheduler.close()
      await dispatcher.close()
      await Promise.all([notices.close(), watched.close(), bell.close()])
    },
  }
}

/** Call the results with every run that ended or asked here. `running` is asked at every scrape. */
function createRunMetrics(
  registry: Registry,
  running: () => number,
): Required<Pick<DispatcherParts, 'onEnded' | 'onAsked'>> {
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
  const asked = sharedMetric(
    registry,
    'flotilla_runs_asked_total',
    (common) =>
      new Counter({
        ...common,
        help: 'Questions of runs that wait for answers, by agent (slug) and the trigger of the run',
        labelNames: ['agent', 'trigger'],
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
    onEnded: ({ slug, trigger, status }) => ended.inc({ agent: slug, trigger, status }),
    onAsked: ({ slug, trigger }) => asked.inc({ agent: slug, trigger }),
  }
}

function createScheduleMetrics(registry: Registry): ScheduleMetrics {
  const fired = sharedMetric(
    registry,
    'flotilla_schedules_fired_total',
    (common) =>
      new Counter({
        ...common,
        help: 'Planned times of schedules that came here, by what became of them: started, refused, missed; and paused schedules',
        labelNames: ['result'],
      }),
  )
  const failed = sharedMetric(
    registry,
    'flotilla_schedules_failed_total',
    (common) =>
      new Counter({ ...common, help: 'Runs and dispatches of schedules that failed, as found here' }),
  )
  const late = sharedMetric(
    registry,
    'flotilla_schedules_late_seconds',
    (common) =>
      new Histogram({
        ...common,
        help: 'How long after their planned time runs and dispatches of schedules were started here',
        buckets: [0.1, 0.5, 1, 5, 15, 60, 300],
      }),
  )
  let due = 0
  registry.removeSingleMetric('flotilla_due_schedules')
  new Gauge({
    name: 'flotilla_due_schedules',
    help: 'Schedules whose time had come when this process last looked, and that nobody had fired',
    registers: [registry],
    collect() {
      this.set(due)
    },
  })
  return {
    fired({ result, lateMs }) {
      fired.inc({ result })
      if (result === 'started') late.observe(lateMs / 1_000)
    },
    failed: (count) => failed.inc(count),
    due: (count) => {
      due = count
    },
  }
}
