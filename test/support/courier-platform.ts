/** A courier in this process, with targets that a test may change, and records published straight into its topic. */

import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { ulid } from 'ulid'
import { listDeadLetters } from '#runtime/consume/dead-letters.ts'
import type { OutgoingMessage, Position } from '#runtime/publish/messages.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { startPlatform } from '#runtime/start/start.ts'
import type { WebhookAttempt, WebhookDelivery } from '#schemas/types.ts'
import { migrationFolders } from '#services/migrations.ts'
import { webhookCourier } from '#services/webhooks/deliver/service.ts'
import { assignPartition } from '#services/webhooks/targets/assignment.ts'
import { webhooksAttempts, webhooksDeliveries } from '#topics/catalog.ts'
import { eventually } from './eventually.ts'

export type TargetEntry = { url: string } & Record<string, unknown>

export interface CourierPlatform {
  home: string
  platform: Platform
  /** Lines of the log, parsed. */
  lines: Record<string, unknown>[]
  /** Replaces the targets file, by rename. JSON is YAML. */
  targets(entries: Record<string, TargetEntry>): void
  /** Publishes events for a target; resolves with their sequences. */
  fire(target: string, events: FiredEvent[]): Promise<number[]>
  /** Reasons of the dead letters that remain, by `<partition>/<offset>`. */
  deadLetters(): Promise<{ offset: number; reason: string; attempts: number; recordKey: string | null }[]>
  attempts(): Promise<WebhookAttempt[]>
  /** Stops the courier and starts it again on the same folder. */
  restart(): Promise<void>
  close(): Promise<void>
}

export type FiredEvent = Partial<WebhookDelivery> & { eventId?: string }

export interface CourierPlatformOptions {
  env?: Record<string, string>
  targets?: Record<string, TargetEntry>
}

export async function openCourierPlatform(options: CourierPlatformOptions = {}): Promise<CourierPlatform> {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  const lines: Record<string, unknown>[] = []
  writeTargets(home, options.targets ?? {})
  const start = () =>
    startPlatform({
      migrations: migrationFolders,
      services: [webhookCourier],
      chosen: [],
      env: { FLOTILLA_HOME: home, OPS_PORT: '0', ...options.env },
      log: pino({ level: 'debug' }, { write: (line: string) => lines.push(JSON.parse(line)) }),
      print() {},
      control: () => async () => null,
    })
  let running = await start()
  return {
    home,
    lines,
    get platform() {
      return running.platform
    },
    targets: (entries) => writeTargets(home, entries),
    fire: (target, events) => fireAt(running.platform, target, events),
    async deadLetters() {
      const letters = await listDeadLetters(
        { ...running.platform, eventLog: running.platform.engines.eventLog },
        { topic: webhooksDeliveries.name },
      )
      return letters.map(({ offset, reason, attempts, recordKey }) => ({
        offset,
        reason,
        attempts,
        recordKey,
      }))
    },
    attempts: () => readAttempts(running.platform),
    async restart() {
      await running.close()
      running = await start()
    },
    async close() {
      await running.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** Publishes events as the relay does: to the partition that the target owns. */
export async function fireAt(platform: Platform, target: string, events: FiredEvent[]): Promise<number[]> {
  const { engines, locations, publisher } = platform
  const parts = { eventLog: engines.eventLog, relational: engines.relational, locations }
  const partition = await assignPartition(parts, target)
  const messages = events.map((event) => deliveryOf(target, event))
  const positions: Position[] = await publisher.publish(webhooksDeliveries, messages, {
    partition,
    timeoutMs: 10_000,
  })
  return positions.map(({ offset }) => offset)
}

let counted = 0

function deliveryOf(
  target: string,
  { eventId, ...event }: FiredEvent,
): OutgoingMessage<string, WebhookDelivery> {
  const { event: kind = 'task.completed', agent = 'WHALE', task_id = `task-${++counted}` } = event
  const idempotency_key = `${agent}-${task_id}-${kind}`
  const ts = Math.floor(Date.now() / 1_000)
  const text = JSON.stringify({ event: kind, agent, task_id, result: {}, ts, idempotency_key })
  const value = {
    target,
    event: kind,
    agent,
    task_id,
    idempotency_key,
    webhook_id: ulid(),
    body: Buffer.from(text),
    received_at: Date.now(),
    sequence: null,
    replay: false,
    ...event,
  }
  return { key: target, value, ...(eventId === undefined ? {} : { eventId }) }
}

function writeTargets(home: string, targets: Record<string, TargetEntry>): void {
  const path = join(home, 'targets.yaml')
  writeFileSync(`${path}.new`, JSON.stringify({ targets }))
  renameSync(`${path}.new`, path)
}

async function readAttempts({ engines, codec, publisher }: Platform): Promise<WebhookAttempt[]> {
  const topic = webhooksAttempts
  const found: WebhookAttempt[] = []
  let reading = Promise.resolve()
  const tail = await engines.eventLog.tail({
    topic: publisher.locationOf(topic).physicalName,
    from: 'beginning',
    records(_, records) {
      reading = reading.then(async () => {
        for (const record of records) {
          if (!record.hidden) found.push((await codec.decode(topic, record)).value!)
        }
      })
    },
  })
  await tail.ready
  await reading
  await tail.close()
  return found.sort((a, b) => a.occurred_at - b.occurred_at)
}

/** Waits until the courier has taken a change of the targets file up. */
export async function takenUp(world: CourierPlatform, times: number): Promise<void> {
  await eventually(
    'the targets file is taken up',
    () => world.lines.filter((line) => line.msg === 'webhooks.targets-taken-up').length >= times,
  )
}
