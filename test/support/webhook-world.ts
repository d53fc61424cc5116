/** Relay and couriers on one set of engines in this process, with sinks and what an operator does. */

import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import type { Static, TObject } from 'typebox'
import { createWebhookClient, type WebhookClient } from '#client/webhooks.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Operation } from '#operations/operation.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { migrationFolders } from '#services/migrations.ts'
import { webhookCourier } from '#services/webhooks/deliver/service.ts'
import { webhookRelay } from '#services/webhooks/fire/service.ts'
import { eventually } from './eventually.ts'
import { operating } from './operator.ts'
import { openWebhookSink, type WebhookSink } from './webhook-sink.ts'

export type TargetEntry = { url: string } & Record<string, unknown>

export interface WebhookWorld {
  platform: Platform
  client: WebhookClient
  webhookUrl: string
  /** Lines of the log. */
  lines: Record<string, unknown>[]
  sink(answer?: WebhookSink['answer']): Promise<WebhookSink>
  /** Replaces the targets file and waits until relay and couriers have taken it up. */
  targets(entries: Record<string, TargetEntry>): Promise<void>
  /** Replaces the targets file by this text, and waits for nothing. */
  targetsText(text: string): void
  /** Fires events one after the other; the sequences by target. */
  fire(count: number, options?: { targets?: string[]; agents?: string[] }): Promise<Map<string, number[]>>
  startCourier(): Promise<Closeable>
  /** Closes couriers and sinks: the next test has its own. */
  clear(): Promise<void>
  /** Does what an operator would. */
  operate<S extends TObject, R, I>(operation: Operation<S, R, I>, args: Static<S>): Promise<R>
  close(): Promise<void>
}

/** `env` names the engines, and what else the platform's environment holds. No courier runs yet. */
export async function openWebhookWorld(env: Record<string, string>): Promise<WebhookWorld> {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  const lines: Record<string, unknown>[] = []
  const everything = { FLOTILLA_HOME: home, WEBHOOK_GATEWAY: '127.0.0.1:0', OPS_PORT: '0', ...env }
  writeTargets(home, JSON.stringify({ targets: {} }))
  const running = await startPlatform({
    migrations: migrationFolders,
    services: [webhookRelay],
    chosen: [],
    env: everything,
    log: pino({ level: 'debug' }, { write: (line: string) => lines.push(JSON.parse(line)) }),
    print() {},
    control: () => async () => null,
  })
  const { platform } = running
  const webhookUrl = running.addresses.webhook_url as string
  const client = createWebhookClient({ webhookUrl })
  const open = new Set<Closeable>()
  const readers = () => 1 + [...open].filter((one) => 'courier' in one).length
  let tasks = 0

  const world: WebhookWorld = {
    platform,
    client,
    webhookUrl,
    lines,
    async sink(answer) {
      const sink = await openWebhookSink(answer)
      open.add(sink)
      return sink
    },
    targetsText: (text) => writeTargets(home, text),
    async targets(next) {
      const seen = () => lines.filter(({ msg }) => msg === 'webhooks.targets-taken-up').length
      const wanted = seen() + readers()
      writeTargets(home, JSON.stringify({ targets: next }))
      await eventually('the targets file is taken up', () => seen() >= wanted)
    },
    async fire(count, { targets, agents = ['ATLAS'] } = {}) {
      const sequences = new Map<string, number[]>()
      for (let n = 0; n < count; n++) {
        const event = {
          event: 'task.completed' as const,
          agent: agents[n % agents.length]!,
          task_id: `t-${++tasks}`,
          result: { n },
        }
        const { deliveries } = await client.fire(event, targets ? { targets } : {})
        for (const { target, sequence } of deliveries) {
          sequences.set(target, [...(sequences.get(target) ?? []), sequence])
        }
      }
      return sequences
    },
    async startCourier() {
      const started = await webhookCourier.start({ ...platform, env: everything })
      const courier = {
        courier: true,
        async close() {
          open.delete(courier)
          await started.close()
        },
      }
      open.add(courier)
      return courier
    },
    operate: (operation, args) => operation.run(operating(platform), args),
    async clear() {
      await Promise.all([...open].map((one) => one.close()))
      open.clear()
    },
    async close() {
      await world.clear()
      await client.close()
      await running.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
  return world
}

/** By rename, as editors do. JSON is YAML. */
function writeTargets(home: string, text: string): void {
  const path = join(home, 'targets.yaml')
  writeFileSync(`${path}.new`, text)
  renameSync(`${path}.new`, path)
}
