/** Webhooks through HTTP: fired at the relay, delivered by couriers to receivers that are well, ill, slow or gone. */

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createReceiver } from '#client/webhook-receiver.ts'
import { deliveryLetters } from '#operations/webhooks/delivery-letters.ts'
import { forgetTargetAction, skipHeadAction } from '#operations/webhooks/skip.ts'
import { listTargetsAction } from '#operations/webhooks/targets.ts'
import type { WebhookSink } from '#test/support/webhook-sink.ts'
import { eventually } from '../support/eventually.ts'
import { openWebhookWorld, type WebhookWorld } from '../support/webhook-world.ts'

const longMs = 120_000
const signingSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

/** Repeatable chance: the same for the same sequence and attempt. */
function chance(sequence: number, attempt: number): number {
  const mixed = Math.imul(sequence * 31 + attempt + 1, 2_654_435_761) >>> 0
  return mixed / 2 ** 32
}

/** A fifth of the first three attempts fail, in every way that ends at once. */
const flaky: WebhookSink['answer'] = ({ sequence, attempt }) => {
  const lot = chance(sequence, attempt)
  if (attempt > 3 || lot > 0.2) return {}
  if (lot < 0.05) return { reset: true }
  if (lot < 0.08) return { garbage: 'nonsense\r\n\r\n' }
  return { status: lot < 0.12 ? 503 : 500 }
}

const ascending = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)

/** `engines` names empty engines. */
export function describeWebhooks(driver: string, engines: () => Promise<Record<string, string>>): void {
  let world: WebhookWorld
  beforeAll(async () => {
    world = await openWebhookWorld({
      ...(await engines()),
      SIGNING_SECRET: signingSecret,
      // Events left by a test wait until the end.
      WEBHOOK_UNKNOWN_TARGET_S: '86400',
    })
  })
  afterEach(() => world?.clear())
  afterAll(() => world?.close())

  const statusOf = async (target: string) => {
    const { targets } = await world.operate(listTargetsAction, {})
    return targets.find((one) => one.target === target)
  }
  /** The status of a target is a moment old: commits and attempts are gathered. */
  const statusBecomes = (target: string, wanted: object) =>
    eventually(
      `${target} has the status`,
      async () => {
        expect(await statusOf(target)).toMatchObject(wanted)
        return true
      },
      longMs,
    )
  const settled = (target: string) =>
    eventually(`nothing waits for ${target}`, async () => (await statusOf(target))?.lag === 0, longMs)
  const arrived = (sink: WebhookSink, count: number) =>
    eventually(
      `${count} arrived, not ${sink.firstSuccesses().length}`,
      () => sink.firstSuccesses().length >= count,
      longMs,
    )

  describe(`webhooks (${driver})`, () => {
    it('keep their order through 500s, resets, nonsense and time-outs, to each target and each agent', async () => {
      await world.startCourier()
      const sinks = [await world.sink(flaky), await world.sink(flaky)]
      const timesOut = await world.sink((request) =>
        request.sequence === 7 && request.attempt === 1 ? { hang: true } : flaky(request),
      )
      const byAgent = await world.sink(flaky)
      const entry = { retry: 9, backoff_ms: 5 }
      await world.targets({
        a: { url: sinks[0]!.url, ...entry },
        b: { url: sinks[1]!.url, ...entry },
        c: { url: timesOut.url, ...entry },
        d: { url: byAgent.url, ordering: 'agent', ...entry },
      })
      const sequences = await world.fire(60, { agents: ['ATLAS', 'WHALE', 'NEXUS'] })
      for (const [name, sink] of [
        ['a', sinks[0]!],
        ['b', sinks[1]!],
        ['c', timesOut],
      ] as const) {
        await arrived(sink, 60)
        expect(sink.firstSuccesses()).toEqual(sequences.get(name))
        // Nothing overtakes even an attempt that failed.
        expect(sink.received.map(({ sequence }) => sequence)).toEqual(
          ascending(sink.received.map(({ sequence }) => sequence)),
        )
        expect(sink.inFlightMax).toBe(1)
      }
      await arrived(byAgent, 60)
      expect(ascending(byAgent.firstSuccesses())).toEqual(sequences.get('d'))
      for (const agent of ['ATLAS', 'WHALE', 'NEXUS']) {
        const own = byAgent.received.filter(({ idempotencyKey }) => idempotencyKey.startsWith(agent))
        expect(own.map(({ sequence }) => sequence)).toEqual(ascending(own.map(({ sequence }) => sequence)))
      }
      expect((await world.operate(deliveryLetters.list, {})).dead_letters).toEqual([])
    }, 240_000)

    it('reach fast targets while one hangs, one answers byte by byte, one is down and one never stops answering', async () => {
      await world.startCourier()
      const fast = [await world.sink(), await world.sink()]
      const hanging = await world.sink(() => ({ hang: true }))
      const slow = await world.sink(() => ({ dripMs: 50 }))
      const endless = await world.sink(() => ({ floodBytes: 2 ** 26 }))
      const down = await world.sink()
      await down.down()
      const ill = { hanging, slow, down, endless }
      const entries = Object.entries({ ...ill, fast0: fast[0]!, fast1: fast[1]! })
      // Without a retry: one call of five seconds proves an outage as well as two.
      await world.targets(
        Object.fromEntries(entries.map(([name, { url }]) => [name, { url, backoff_ms: 20, retry: 0 }])),
      )
      const sequences = await world.fire(40)
      for (const [n, sink] of fast.entries()) {
        await arrived(sink, 40)
        expect(sink.firstSuccesses()).toEqual(sequences.get(`fast${n}`))
      }
      // A body that is longer than anyone reads is no reason to send the event again.
      await arrived(endless, 40)
      expect(endless.received).toHaveLength(40)
      await eventually('the slow ones were given up and tried again', () =>
        [hanging, slow].every(({ received }) => received.length >= 2),
      )
      for (const sink of [hanging, slow]) {
        // Its head alone was tried, one call at a time.
        expect(new Set(sink.received.map(({ sequence }) => sequence))).toEqual(
          new Set([sequences.get('hanging')![0]]),
        )
      }
      expect(hanging.inFlightMax).toBe(1)
      const health = async () => (await fetch(`${world.webhookUrl}/health`)).json()
      const outage = await eventually(
        'the outages are known',
        async () => {
          const all = await Promise.all(['hanging', 'slow', 'down'].map(statusOf))
          return all.every((one) => one?.state === 'outage') ? all : null
        },
        longMs,
      )
      for (const one of outage) expect(one).toMatchObject({ lag: 40, breaker: 'open', head_sequence: 0 })
      expect(outage.map((one) => one?.last_fault)).toEqual(['timeout', 'timeout', 'connect'])
      await eventually('health knows them', async () => {
        expect(await health()).toMatchObject({
          status: 'warn',
          targets: { down: { breaker: 'open', lag: 40 }, fast0: { lag: 0 } },
        })
        return true
      })
      expect((await world.operate(deliveryLetters.list, {})).dead_letters).toEqual([])
    }, 240_000)

    it('are handed from courier to courier in order, none twice but those in flight', async () => {
      const names = ['a', 'b', 'c', 'd', 'e', 'f']
      const sinks = new Map<string, WebhookSink>()
      for (const name of names) sinks.set(name, await world.sink(() => ({ afterMs: 5 })))
      await world.targets(
        Object.fromEntries(names.map((name) => [name, { url: sinks.get(name)!.url, backoff_ms: 10 }])),
      )
      const first = await world.startCourier()
      const firing = world.fire(120)
      await arrived(sinks.get('a')!, 20)
      const second = await world.startCourier()
      await arrived(sinks.get('f')!, 60)
      await first.close()
      const sequences = await firing
      for (const name of names) {
        const sink = sinks.get(name)!
        await arrived(sink, 120)
        expect(sink.firstSuccesses()).toEqual(sequences.get(name))
        // Two hand-overs: events in flight or not yet committed at each may come twice.
        expect(sink.received.length).toBeLessThanOrEqual(120 + 2 * 16)
        expect(sink.inFlightMax).toBe(1)
      }
      await second.close()
    }, 240_000)

    it('wait through an outage and a restart of the courier, in order, and none is given up', async () => {
      const sink = await world.sink()
      await world.targets({ away: { url: sink.url, backoff_ms: 10, retry: 1 } })
      const courier = await world.startCourier()
      const before = await world.fire(3)
      await arrived(sink, 3)
      await sink.down()
      const during = await world.fire(12)
      await statusBecomes('away', {
        state: 'outage',
        lag: 12,
        breaker: 'open',
        head_sequence: during.get('away')![0],
        head_age_s: expect.any(Number),
        next_attempt_at: expect.any(String),
        last_fault: 'connect',
      })
      await courier.close()
      await world.startCourier()
      const after = await world.fire(3)
      await sink.up()
      await arrived(sink, 18)
      expect(sink.firstSuccesses()).toEqual([before, during, after].flatMap((fired) => fired.get('away')!))
      // The attempts before the restart count: they do not begin again.
      const head = sink.received.find(({ sequence }) => sequence === during.get('away')![0])!
      expect(head.attempt).toBeGreaterThan(2)
      expect(head.previous).toBe(before.get('away')!.at(-1))
      await statusBecomes('away', { state: 'idle', lag: 0, breaker: 'closed', last_status: 204 })
      expect((await world.operate(deliveryLetters.list, {})).dead_letters).toEqual([])
    }, 240_000)

    it('leave poison behind, which a receiver notices as a gap and takes as a replay', async () => {
      await world.startCourier()
      const receiver = createReceiver({ secrets: [signingSecret] })
      const handled: (string | null)[] = []
      let mended = false
      const sink = await world.sink(({ sequence }) => ({ status: !mended && sequence % 5 === 3 ? 422 : 204 }))
      await world.targets({
        picky: { url: sink.url, backoff_ms: 5, signing_secret: '$' + '{SIGNING_SECRET}' },
      })
      const receive = async () => {
        for (const { headers, body, status } of sink.received.splice(0)) {
          if (status !== 204) continue
          await receiver.receive(headers, body, (event, { gap, replay }) => {
            const n = (event.result as { n: number }).n
            handled.push(
              `${n}${gap ? ` after a gap through ${gap.through}` : ''}${replay ? ' replayed' : ''}`,
            )
          })
        }
        return handled.length
      }
      await world.fire(10)
      await eventually('the good ones are handled', async () => (await receive()) === 8)
      expect(handled).toEqual([
        '0',
        '1',
        '2',
        '4 after a gap through 3',
        '5',
        '6',
        '7',
        '9 after a gap through 8',
      ])
      const letters = await eventually('both are parked', async () => {
        const { dead_letters: all } = await world.operate(deliveryLetters.list, { target: 'picky' })
        return all.length === 2 ? all : null
      })
      expect(letters.map(({ sequence, reason, attempts }) => [sequence, reason, attempts])).toEqual([
        [3, 'http_422', 1],
        [8, 'http_422', 1],
      ])
      mended = true
      const { results } = await world.operate(deliveryLetters.replay, { target: 'picky' })
      expect(results.map(({ sequence, status }) => [sequence, status])).toEqual([
        [3, 'replayed'],
        [8, 'replayed'],
      ])
      await world.fire(1)
      await eventually('all are handled', async () => (await receive()) === 11)
      expect(handled.slice(8)).toEqual(['3 replayed', '8 replayed', '0'])
      expect((await world.operate(deliveryLetters.list, {})).dead_letters).toEqual([])
      await expect(world.operate(deliveryLetters.replay, {})).rejects.toMatchObject({
        code: 'dead_letter_not_found',
      })
    }, 240_000)

    it('go on when an operator skips a head that holds the others', async () => {
      const courier = await world.startCourier()
      const sink = await world.sink(({ sequence }) => ({ status: sequence % 3 === 1 ? 500 : 204 }))
      const entry = { url: sink.url, backoff_ms: 5, retry: 1, on_exhausted: 'hold' }
      await world.targets({ held: entry })
      const skipping = () => world.operate(skipHeadAction, { name: 'held' })
      await eventually('it owns a partition, in which nothing waits', async () => {
        await expect(skipping()).rejects.toMatchObject({ code: 'conflict' })
        return true
      })
      await expect(world.operate(skipHeadAction, { name: 'nobody' })).rejects.toMatchObject({
        code: 'not_found',
      })
      await world.fire(4)
      await eventually(
        'the head is tried beyond its retries',
        () => sink.received.filter(({ sequence }) => sequence === 1).length > 2,
      )
      expect(sink.firstSuccesses()).toEqual([0])
      await statusBecomes('held', { state: 'retrying', lag: 3, head_sequence: 1, last_status: 500 })
      expect(await world.operate(skipHeadAction, { name: 'held' })).toEqual({
        target: 'held',
        sequence: 1,
        outcome: 'parked',
      })
      await arrived(sink, 3)
      expect(sink.firstSuccesses()).toEqual([0, 2, 3])
      // Without a courier it is marked, and parked by the next one.
      await courier.close()
      await world.fire(2)
      const skipped = await world.operate(skipHeadAction, { name: 'held' })
      expect(skipped).toEqual({ target: 'held', sequence: 4, outcome: 'waiting' })
      await world.startCourier()
      await arrived(sink, 4)
      expect(sink.firstSuccesses()).toEqual([0, 2, 3, 5])
      expect(sink.received.find(({ sequence }) => sequence === 2)?.previous).toBe(1)
      await settled('held')
      const { dead_letters: letters } = await world.operate(deliveryLetters.list, {})
      expect(letters).toMatchObject([
        { target: 'held', sequence: 1, reason: 'skipped' },
        { target: 'held', sequence: 4, reason: 'skipped' },
      ])
      const one = await world.operate(deliveryLetters.discard, { target: 'held', sequence: 1 })
      expect(one.results).toMatchObject([{ sequence: 1, status: 'discarded' }])
      const rest = await world.operate(deliveryLetters.discard, { target: 'held' })
      expect(rest.results).toMatchObject([{ sequence: 4, status: 'discarded' }])
      expect((await world.operate(deliveryLetters.list, {})).dead_letters).toEqual([])
    }, 240_000)

    it('follow the targets file while running: added, removed, forgotten, and garbage refused', async () => {
      await world.startCourier()
      const [kept, gone] = [await world.sink(), await world.sink()]
      const entry = (sink: WebhookSink) => ({ url: sink.url, backoff_ms: 10, retry: 1 })
      await world.targets({ kept: entry(kept) })
      await world.fire(2)
      await world.targets({ kept: entry(kept), gone: entry(gone) })
      await world.fire(2)
      await arrived(gone, 2)
      await expect(world.operate(forgetTargetAction, { name: 'gone', force: true })).rejects.toMatchObject({
        code: 'conflict',
      })
      await gone.down()
      await world.fire(3, { targets: ['gone'] })
      await world.targets({ kept: entry(kept) })
      await expect(world.fire(1, { targets: ['gone'] })).rejects.toMatchObject({ code: 'unknown_target' })
      await statusBecomes('gone', { state: 'removed', lag: 3 })
      await expect(world.operate(forgetTargetAction, { name: 'gone', force: false })).rejects.toMatchObject({
        code: 'conflict',
      })
      const { partition } = (await statusOf('gone'))!
      const forgotten = await world.operate(forgetTargetAction, { name: 'gone', force: true })
      expect(forgotten).toEqual({ target: 'gone', partition, discarded: 3, dead_letters: 0 })
      expect(await statusOf('gone')).toBeUndefined()

      const refused = () =>
        world.lines.filter(({ msg }) => String(msg).startsWith('webhooks.targets-refused')).length
      world.targetsText('targets:\n  kept:\n    url: [\u0000')
      await eventually('the garbage is refused by relay and courier', () => refused() >= 2)
      await world.fire(2)
      await arrived(kept, 6)
      expect(await (await fetch(`${world.webhookUrl}/health`)).json()).toMatchObject({ status: 'warn' })

      const late = await world.sink()
      await world.targets({ kept: entry(kept), late: entry(late) })
      const sequences = await world.fire(2)
      await arrived(late, 2)
      expect(late.firstSuccesses()).toEqual(sequences.get('late'))
      await statusBecomes('late', { partition, state: 'idle', lag: 0 })
      expect(late.received[0]?.previous).toBeNull()
    }, 240_000)

    it('reach 70 targets, each in a partition of its own', async () => {
      await world.startCourier()
      const sink = await world.sink()
      const names = Array.from({ length: 70 }, (_, n) => `target-${n}`)
      await world.targets(Object.fromEntries(names.map((name) => [name, { url: `${sink.url}/${name}` }])))
      for (let n = 0; n < 3; n++) {
        // While the partitions are still being made, a fire may be answered 503: the client repeats it.
        await eventually('the event is accepted', () => world.fire(1).catch(() => null), longMs)
      }
      await eventually(
        'each has three',
        () => {
          const keys = new Map<string, Set<string>>()
          for (const { path, idempotencyKey } of sink.received) {
            keys.set(path, (keys.get(path) ?? new Set()).add(idempotencyKey))
          }
          return keys.size === 70 && [...keys.values()].every((own) => own.size >= 3)
        },
        longMs,
      )
      const { targets } = await world.operate(listTargetsAction, {})
      expect(targets.length).toBeGreaterThanOrEqual(70)
      expect(new Set(targets.map(({ partition }) => partition)).size).toBe(targets.length)
    }, 240_000)
  })
}
