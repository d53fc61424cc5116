/** The measured process of the webhooks bench: log, database, a courier that the bench starts and stops, and a relay. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { ulid } from 'ulid'
import type { EmbeddedLog } from '#engines/event-log/embedded.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import type { Closeable } from '#lib/resource.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { type RunningPlatform, startPlatform } from '#runtime/start/start.ts'
import type { WebhookDelivery } from '#schemas/types.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { assignPartition } from '#services/webhooks/targets/assignment.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { paced, serveForked, sharedNow } from './forked.ts'

const home = process.argv[2]!
const targetsFile = join(home, 'targets.yaml')
const env = {
  // Empty: the embedded log.
  KAFKA_BROKERS: process.argv[3] ?? '',
  FLOTILLA_HOME: home,
  WEBHOOK_TARGETS_FILE: targetsFile,
  WEBHOOK_GATEWAY: '127.0.0.1:0',
  OPS_PORT: '0',
}
const log = pino({ level: process.env.BENCH_LOG ?? 'error' }, pino.destination(2))
const batch = 500

let platform: Platform | undefined
let courier: Closeable | undefined
let whole: RunningPlatform | undefined
let numbers = 0

interface Targets {
  urls: string[]
  backoffMs: number
}

const handlers = {
  /** Writes the targets file and opens the engines. */
  async open({ urls, backoffMs }: Targets): Promise<void> {
    writeTargets(urls, backoffMs)
    platform ??= await openPlatform({
      migrations: migrationFolders,
      env,
      needs: [],
      producerName: 'bench',
      log,
      lock: true,
    })
  },
  /**
   * Appends `count` events of about 1 KB for each target; the first of them as it was written. Older deliveries
   * are removed: a courier reads the ids behind its position back, which would take longer with each round.
   */
  async fill({ targets, count }: { targets: number; count: number }): Promise<string> {
    const { partitions, parts } = await place(targets)
    await empty(parts.engines.eventLog, parts.publisher.locationOf(webhooksDeliveries).physicalName)
    let first = ''
    for (let done = 0; done < count; done += batch) {
      const many = Math.min(batch, count - done)
      const deliveries = Array.from({ length: many }, () => deliveryOf('', sharedNow()))
      first ||= deliveries[0]!.body.toString()
      await Promise.all(
        partitions.map((partition, n) =>
          parts.publisher.publish(
            webhooksDeliveries,
            deliveries.map((delivery) => ({ key: `sink-${n}`, value: { ...delivery, target: `sink-${n}` } })),
            { partition, timeoutMs: 60_000 },
          ),
        ),
      )
    }
    return first
  },
  async startCourier(_: null): Promise<void> {
    const service = services.find((one) => one.name === 'webhook-courier')
    if (service?.kind !== 'worker' || !platform) throw new Error('there is no courier')
    courier = await service.start(platform)
  },
  /** Another targets file for the courier that runs. */
  retarget({ urls, backoffMs }: Targets): void {
    writeTargets(urls, backoffMs)
  },
  async stopCourier(_: null): Promise<void> {
    await courier?.close()
    courier = undefined
  },
  /** One event for each of the first `targets`, `perSecond` times a second; resolves when `count` are in the log. */
  async publish({ targets, count, perSecond }: Paced): Promise<void> {
    const { partitions, parts } = await place(targets)
    await paced(perSecond, count, async (at) => {
      const value = deliveryOf('', at)
      await Promise.all(
        partitions.map((partition, n) => {
          const target = `sink-${n}`
          return parts.publisher.publish(webhooksDeliveries, [{ key: target, value: { ...value, target } }], {
            partition,
            timeoutMs: 10_000,
          })
        }),
      )
    })
  },
  /** Closes the bare engines and starts relay and courier on them; the relay's address. */
  async startRelay(_: null): Promise<string> {
    await handlers.stopCourier(null)
    await platform?.close()
    platform = undefined
    whole = await startPlatform({
      migrations: migrationFolders,
      services: services.filter(({ name }) => name.startsWith('webhook-')),
      chosen: [],
      env,
      log,
      print: () => {},
      control: () => async () => {},
    })
    return whole.addresses.webhook_url!
  },
}

export type PlatformCalls = typeof handlers

interface Paced {
  targets: number
  count: number
  perSecond: number
}

function writeTargets(urls: string[], backoffMs: number): void {
  const entries = urls.map(
    (url, n) => `  sink-${n}:\n    url: ${url}/hook\n    backoff_ms: ${backoffMs}\n    retry: 5\n`,
  )
  writeFileSync(targetsFile, `targets:\n${entries.join('')}`)
}

async function place(targets: number) {
  const parts = platform!
  const { eventLog, relational } = parts.engines
  const partitions: number[] = []
  for (let n = 0; n < targets; n++) {
    partitions.push(await assignPartition({ eventLog, relational, locations: parts.locations }, `sink-${n}`))
  }
  return { parts, partitions }
}

async function empty(eventLog: EventLog, topic: string): Promise<void> {
  for (const { partition, start, end } of await eventLog.offsets(topic)) {
    if (start < end) await eventLog.deleteRecords(topic, partition, end)
  }
  // The rows go now, not while something is measured.
  if (eventLog.driver === 'embedded') await (eventLog as EmbeddedLog).sweepNow()
}

function deliveryOf(target: string, at: number): WebhookDelivery {
  const event = {
    event: 'task.completed',
    agent: 'ATLAS',
    task_id: `task-${++numbers}`,
    result: { at, text: 'x'.repeat(850) },
    ts: Math.floor(Date.now() / 1_000),
  }
  const idempotency_key = `${event.agent}-${event.task_id}-${event.event}`
  return {
    target,
    event: event.event,
    agent: event.agent,
    task_id: event.task_id,
    idempotency_key,
    webhook_id: ulid(),
    body: Buffer.from(JSON.stringify({ ...event, idempotency_key })),
    received_at: Date.now(),
    sequence: null,
    replay: false,
  }
}

serveForked(handlers, async () => {
  await courier?.close()
  await whole?.close()
  await platform?.close()
})
