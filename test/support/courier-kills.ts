/** Couriers that are killed among receivers that fail at random: nothing is lost or parked, and every target's order stays. */

import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { listDeadLetters } from '#runtime/consume/dead-letters.ts'
import { commitEveryMs } from '#runtime/consume/limits.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { fireAt } from './courier-platform.ts'
import { eventually } from './eventually.ts'
import { type RunningProcess, spawnFlotilla } from './flotilla-process.ts'
import { type Answer, openWebhookSink, type Received, type WebhookSink } from './webhook-sink.ts'

const targetCount = 8
const kills = 3
const answerMs = 2
/** Deliveries in flight, and those that may end before a commit, at answers of 2 ms: a commit may be late twice. */
const repeatedPerKill = 1 + (3 * commitEveryMs.hurried) / answerMs
const patienceMs = 240_000

async function embedded(): Promise<Record<string, string>> {
  return {}
}

async function kafka(): Promise<Record<string, string>> {
  const cluster = await openKafkaCluster(1)
  onTestFinished(() => cluster.close())
  return { KAFKA_BROKERS: cluster.brokers.join(',') }
}

/** Each of eight targets gets so many events. */
export function describeKilledCourier(eventsPerTarget: number): void {
  describe('a courier that is killed and started again', () => {
    test.each([
      ['embedded', embedded],
      ['Kafka', kafka],
    ])(
      'delivers everything once and in order on the %s log, over random faults and an outage',
      async (_, engines) => {
        const home = mkdtempSync(join(tmpdir(), 'fl-'))
        onTestFinished(() => rmSync(home, { recursive: true, force: true }))
        const env = { FLOTILLA_HOME: home, OPS_PORT: '0', ...(await engines()) }
        const sinks = await openSinks(home, eventsPerTarget)
        await withPlatform(env, async (platform) => {
          for (const n of sinks.keys()) {
            const events = Array.from({ length: eventsPerTarget }, () => ({ agent: `agent-${n}` }))
            await fireAt(platform, nameOf(n), events)
          }
        })
        const away = sinks.at(-1)!
        await away.down()
        const delivered = () => sinks.reduce((sum, sink) => sum + sink.firstSuccesses().length, 0)
        const expected = targetCount * eventsPerTarget
        let courier = startCourier(env)
        for (let kill = 1; kill <= kills; kill++) {
          const until = Math.floor((kill * (expected - eventsPerTarget)) / (kills + 1))
          await alive(courier, `${until} are delivered`, () => delivered() >= until)
          courier.child.kill('SIGKILL')
          await courier.finished
          courier = startCourier(env)
        }
        await away.up()
        await alive(courier, 'all are delivered', () => delivered() === expected)
        courier.child.kill('SIGTERM')
        await courier.finished
        for (const sink of sinks) checkOrder(sink, eventsPerTarget)
        const repeated = sinks.flatMap(successes).length - expected
        expect(repeated).toBeLessThanOrEqual(kills * targetCount * repeatedPerKill)
        await withPlatform(env, async (platform) => {
          const parts = { ...platform, eventLog: platform.engines.eventLog }
          expect(await listDeadLetters(parts, { topic: webhooksDeliveries.name })).toEqual([])
        })
      },
      600_000,
    )
  })
}

const nameOf = (n: number) => `target-${n}`
const successes = (sink: WebhookSink) => sink.received.filter(({ status }) => status !== null && status < 300)

/** Every target's events arrive for the first time in the order of their sequences, and each names the one before. */
function checkOrder(sink: WebhookSink, eventsPerTarget: number): void {
  expect(sink.firstSuccesses()).toEqual(Array.from({ length: eventsPerTarget }, (_, n) => n))
  for (const { sequence, previous } of sink.received)
    if (previous !== null) expect(previous).toBe(sequence - 1)
  expect(sink.inFlightMax).toBe(1)
}

async function openSinks(home: string, eventsPerTarget: number): Promise<WebhookSink[]> {
  const sinks = await Promise.all(
    Array.from({ length: targetCount }, (_, n) => openWebhookSink(faultsOf(n, eventsPerTarget))),
  )
  onTestFinished(async () => void (await Promise.all(sinks.map((sink) => sink.close()))))
  // Not those of the platform's own agents, which start with it.
  const events = ['task.completed']
  const targets = sinks.map(({ url }, n) => [nameOf(n), { url, retry: 50, backoff_ms: 2, events }])
  const path = join(home, 'targets.yaml')
  writeFileSync(`${path}.new`, JSON.stringify({ targets: Object.fromEntries(targets) }))
  renameSync(`${path}.new`, path)
  return sinks
}

/** Some receivers are sound, others fail now and then, one is silent for some. */
function faultsOf(n: number, eventsPerTarget: number): (request: Received) => Answer {
  const silentAt = [0.2, 0.6].map((share) => Math.floor(share * eventsPerTarget))
  return ({ sequence, attempt }) => {
    if (n === 1 && attempt === 1 && silentAt.includes(sequence)) return { hang: true }
    const chance = Math.random()
    if (n >= 2 && chance < 0.06) return { status: 500 }
    if (n >= 3 && chance < 0.09) return { reset: true }
    if (n >= 4 && chance < 0.11) return { status: 503, headers: { 'retry-after': '0' } }
    return { afterMs: answerMs }
  }
}

async function withPlatform(
  env: Record<string, string>,
  work: (platform: Platform) => Promise<void>,
): Promise<void> {
  const log = pino({ level: 'silent' })
  const platform = await openPlatform({
    migrations: migrationFolders,
    env,
    needs: [],
    producerName: 'tests',
    log,
    lock: true,
  })
  try {
    await work(platform)
  } finally {
    await platform.close()
  }
}

/** With all services: an embedded engine belongs to one process. */
function startCourier(env: Record<string, string>): RunningProcess {
  const free = {
    VECTOR_GATEWAY_PORT: '0',
    MAIN_API_PORT: '0',
    HUB_PORT: '0',
    RUN_GATEWAY_PORT: '0',
    WEBHOOK_GATEWAY: '127.0.0.1:0',
    LOG_LEVEL: 'error',
  }
  return spawnFlotilla(['start'], { ...free, ...env })
}

/** Waits for the condition, or for the courier to end by itself, which it must not. */
async function alive({ child, stderr }: RunningProcess, what: string, reached: () => boolean): Promise<void> {
  await eventually(what, () => reached() || child.exitCode !== null, patienceMs)
  expect(child.exitCode, stderr()).toBeNull()
}
