/** Promises of several couriers together: partitions move between them, and new ones come, while they deliver. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Closeable } from '#lib/resource.ts'
import { webhookCourier } from '#services/webhooks/deliver/service.ts'
import { assignPartition } from '#services/webhooks/targets/assignment.ts'
import { type CourierPlatform, openCourierPlatform } from '#test/support/courier-platform.ts'
import { eventually } from '#test/support/eventually.ts'
import { openWebhookSink, type WebhookSink } from '#test/support/webhook-sink.ts'

const patienceMs = 90_000
const targets = 6

export function describeCouriers(
  driver: string,
  environment: () => Promise<{ env: Record<string, string>; closed(): Promise<void> }>,
): void {
  let world: CourierPlatform
  let sinks: WebhookSink[] = []
  let env: Record<string, string> = {}
  let closed: () => Promise<void> = async () => {}

  beforeAll(async () => {
    const engines = await environment()
    closed = engines.closed
    sinks = await Promise.all(Array.from({ length: targets }, () => openWebhookSink(() => ({ afterMs: 5 }))))
    const entries = sinks.map(({ url }, n): [string, { url: string }] => [nameOf(n), { url }])
    // More names than partitions: the last ones find none free.
    for (let n = targets; n < 70; n++) entries.push([nameOf(n), { url: sinks[0]!.url }])
    env = engines.env
    world = await openCourierPlatform({ env, targets: Object.fromEntries(entries) })
  }, 180_000)
  afterAll(async () => {
    await world?.close()
    await Promise.all(sinks.map((sink) => sink.close()))
    await closed()
  })

  const nameOf = (n: number) => `target-${n}`
  const many = (count: number) => Array.from({ length: count }, () => ({}))
  /** Another courier in this process, on the same engines. */
  async function join(): Promise<Closeable> {
    const courier = await webhookCourier.start({
      ...world.platform,
      env: { FLOTILLA_HOME: world.home, ...env },
    })
    onTestFinished(() => courier.close())
    return courier
  }

  describe(`couriers on the ${driver} log`, () => {
    test('never call a target twice at once, and keep its order, while one comes and goes', async () => {
      const total = 600
      for (const n of sinks.keys()) await world.fire(nameOf(n), many(total))
      const delivered = () => Math.min(...sinks.map((sink) => sink.firstSuccesses().length))
      await eventually('the first delivers', () => delivered() > 50, patienceMs)
      const second = await join()
      const { physicalName } = world.platform.locations.get('webhooks.deliveries')!
      const members = async () =>
        (await world.platform.engines.eventLog.groupState('webhook-courier', physicalName)).members
      await eventually('both are members', async () => (await members()) === 2, patienceMs)
      await eventually('both deliver', () => delivered() > 200, patienceMs)
      await second.close()
      await eventually('all are delivered', () => delivered() === total, patienceMs)
      for (const sink of sinks) {
        expect(sink.inFlightMax).toBe(1)
        expect(sink.firstSuccesses()).toEqual(Array.from({ length: total }, (_, n) => n))
        // A partition that moves is drained first, or its call in flight is cut and repeated.
        expect(sink.received.length - total).toBeLessThanOrEqual(10)
      }
    }, 300_000)

    test('take up new partitions while they deliver, without disturbing any target', async () => {
      const { engines, locations } = world.platform
      const parts = { eventLog: engines.eventLog, relational: engines.relational, locations }
      const partitions: number[] = []
      for (let n = 0; n < 70; n++) partitions.push(await assignPartition(parts, nameOf(n)))
      expect(new Set(partitions).size).toBe(70)
      expect(Math.max(...partitions)).toBeGreaterThanOrEqual(64)
      const before = sinks[0]!.received.length
      for (let n = 60; n < 70; n++) await world.fire(nameOf(n), many(3))
      await eventually('all arrived', () => sinks[0]!.received.length === before + 30, patienceMs)
      const stopped = world.lines.filter((line) => line.msg === 'consumer.partition-stopped')
      expect(stopped).toEqual([])
      await world.restart()
      await world.fire(nameOf(69), many(1))
      await eventually('one more arrived', () => sinks[0]!.received.length === before + 31, patienceMs)
    }, 300_000)
  })
}
