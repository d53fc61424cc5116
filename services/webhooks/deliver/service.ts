/** The worker that delivers webhooks: joins the group of webhooks.deliveries and runs the regular tasks around the courier. */

import type { Logger } from 'pino'
import { type Static, Type } from 'typebox'
import type { Log, LogAdmin } from '#engines/event-log/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import {
  LaneWakeups,
  type PartitionReading,
  type RunningConsumer,
  startLaneConsumer,
} from '#runtime/consume/consumer.ts'
import { ringIdsMax } from '#runtime/consume/limits.ts'
import { handOverAdded, readLocation } from '#runtime/publish/added-partitions.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { type Attempts, createAttempts, stateRecord } from '../attempts/attempts.ts'
import { createNameLookup } from '../targets/name-lookup.ts'
import { withoutSecrets } from '../targets/secrets.ts'
import { checkTargetsFile, targetsFileOf, watchTargets, webhookSettings } from '../targets/targets-file.ts'
import type { Courier } from './courier.ts'
import { Skips } from './lanes.ts'
import { LoadWatch } from './load-watch.ts'
import { callsPerTargetMax } from './target-state.ts'

const config = Type.Object({
  ...webhookSettings.properties,
  WEBHOOK_UNKNOWN_TARGET_S: Type.Integer({
    minimum: 0,
    maximum: 86_400,
    default: 300,
    description:
      'how long an event waits for a target that the targets file does not name (yet), in seconds; then it becomes a dead letter',
  }),
})

const courierGroup = 'webhook-courier'
const topic = webhooksDeliveries
/** A call ends by its own time-out; the consumer's is there in case that fails. */
const callTimeoutMs = deadlines.handler.courierMs
const stateEveryMs = 10_000
const skipEveryMs = 1_000
const trimEveryMs = 60_000
const loadEveryMs = 60_000
const loadFirstAfterMs = 5_000
/** How long a stop lets calls run: interrupted ones are sent again. */
const stopCallsAfterMs = deadlines.stop.callsMs

type Context = ServiceContext<'eventLog' | 'relational', Static<typeof config>>

export const webhookCourier = defineWorker({
  name: 'webhook-courier',
  purpose: 'delivers events to webhook targets, in order, until they arrive or an operator gives them up',
  needs: ['eventLog', 'relational'],
  config,
  check: checkTargetsFile,
  load: () => import('./courier.ts'),
  start: startWebhookCourier,
})

async function startWebhookCourier(context: Context): Promise<Closeable> {
  const { env, log, engines, publisher } = context
  const { Courier } = await import('./courier.ts')
  const { path, optional } = targetsFileOf(env)
  const stopping = new AbortController()
  const watched = watchTargets({ path, env, log, optional, signal: stopping.signal })
  const attempts = createAttempts(publisher, log)
  const skips = new Skips(engines.relational)
  const load = new LoadWatch(log)
  const wakeups = new LaneWakeups()
  const courier = new Courier({
    targets: () => watched.current(),
    unknownMs: context.config.WEBHOOK_UNKNOWN_TARGET_S * 1_000,
    names: createNameLookup(),
    attempts,
    skips,
    load,
    log,
    tracing: context.tracing,
    wakeups,
  })
  const consumer = await join(context, courier, wakeups, () => watched.current().secrets)
  watched.onChange((targets) => {
    load.renewed()
    courier.renew(targets)
  })
  const { signal } = stopping
  const loop = (what: string, everyMs: number, work: () => Promise<unknown>, firstAfterMs = everyMs) =>
    repeatUntil({ what, everyMs, firstAfterMs, signal, log }, work)
  const reported = new Set<string>()
  const loops = [
    loop('webhook states', stateEveryMs, async () =>
      reportStates(courier, attempts, await consumer.readings(), reported),
    ),
    loop('webhook skips', skipEveryMs, async () => {
      courier.skipped(await skips.refresh(courier.waiting()))
    }),
    loop('webhook trimming', trimEveryMs, async () => {
      const { physicalName } = publisher.locationOf(topic)
      await trimDelivered(engines.eventLog, physicalName, await consumer.readings(), log)
    }),
    loop(
      'webhook load',
      loadEveryMs,
      async () => load.look(watched.current().targets.values()),
      loadFirstAfterMs,
    ),
  ]
  return {
    async close() {
      const cut = setTimeout(() => courier.stop(), stopCallsAfterMs)
      stopping.abort()
      await Promise.all([consumer.close(), ...loops])
      clearTimeout(cut)
      courier.close()
      await Promise.all([attempts.close(), watched.close()])
    },
  }
}

function join(
  context: Context,
  courier: Courier,
  wakeups: LaneWakeups,
  secrets: () => readonly string[],
): Promise<RunningConsumer> {
  const { engines, codec, publisher, log, metrics, tracing } = context
  const handOver = handOverAdded(engines.relational, topic, courierGroup)
  return startLaneConsumer(
    { eventLog: engines.eventLog, codec, publisher, log, metrics, tracing },
    {
      group: courierGroup,
      topic,
      concurrency: callsPerTargetMax,
      callTimeoutMs,
      // These retries are only for calls that the runtime gave up: the courier's own retries are held heads.
      retriesMax: Number.MAX_SAFE_INTEGER,
      backoff: { baseMs: 250, maxMs: 60_000 },
      // A target that is away holds its position for days, whatever happens to the process.
      blamesRecords: false,
      keyIsLane: (key, fresh) => courier.lanes.orderingOf(key, fresh) === 'target',
      lane: ({ value }) => courier.lanes.laneOf(value!),
      onSettledBefore: (message) => courier.settledBefore(message),
      wakeups,
      handle: (message, call) => courier.handle(message, call),
      keptOf: withoutSecrets({ codec, topic, secrets }),
      async onAssigned(gained) {
        courier.gained(gained.map(({ partition }) => partition))
        if (gained.every(({ committed }) => committed !== null)) {
          // Deletes rows that are no longer needed: nothing waits for the database.
          handOver(gained).catch(() => {})
          return undefined
        }
        // Read first: a partition that is counted here has its row by the time that rows are read.
        const { partitions } = await readLocation(engines.relational, topic)
        const positions = new Map(await handOver(gained))
        // The log may assign a partition before its row exists: nothing can have been written to it by then.
        for (const { partition, committed } of gained) {
          if (committed === null && partition >= partitions) positions.set(partition, 0)
        }
        return positions
      },
    },
  )
}

/** Targets that have something waiting are reported again and again, and a last time when nothing waits. */
function reportStates(
  courier: Courier,
  attempts: Attempts,
  read: readonly PartitionReading[],
  reported: Set<string>,
): void {
  const readings = new Map(read.map((reading) => [reading.partition, reading]))
  courier.keep(({ partition }) => readings.has(partition))
  for (const state of courier.states()) {
    const { name } = state.target
    const lag = readings.get(state.partition)?.waiting ?? null
    const waits = state.breaker === 'open' || (lag ?? 0) > 0
    if (waits || reported.delete(name)) attempts.add(stateRecord(state, lag))
    if (waits) reported.add(name)
  }
}

/** Fewer records than these are not worth a call. */
const trimRecordsMin = 1_024

/** Deletes settled records of these partitions, but for the last ones, whose event ids are needed to drop repeats. */
export async function trimDelivered(
  eventLog: Pick<Log & LogAdmin, 'offsets' | 'deleteRecords'>,
  topic: string,
  readings: readonly PartitionReading[],
  log: Logger,
): Promise<void> {
  if (readings.every(({ committed }) => committed < ringIdsMax + trimRecordsMin)) return
  const starts = new Map((await eventLog.offsets(topic)).map(({ partition, start }) => [partition, start]))
  let trimmed = 0
  for (const { partition, committed } of readings) {
    const before = committed - ringIdsMax
    const records = before - (starts.get(partition) ?? before)
    if (records < trimRecordsMin) continue
    try {
      await eventLog.deleteRecords(topic, partition, before)
      trimmed += records
    } catch (error) {
      log.warn({ partition, reason: describeError(error) }, 'webhooks.trim-failing')
    }
  }
  if (trimmed > 0) log.info({ trimmed }, 'webhooks.trimmed')
}
