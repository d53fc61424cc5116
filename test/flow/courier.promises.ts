/** Promises of the courier on every event log: headers, order, retries, poison, outage, reload, and restarts. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { verifyWebhook } from '#client/webhook-signature.ts'
import { type CourierPlatform, openCourierPlatform, takenUp } from '#test/support/courier-platform.ts'
import { eventually } from '#test/support/eventually.ts'
import { type Answer, openWebhookSink, type Received, type WebhookSink } from '#test/support/webhook-sink.ts'

/** Above the slowest rebalance of a busy machine. */
const patienceMs = 60_000
const signingSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

/** Targets that are there from the start: to wait for a change of the file takes longer than most tests. */
const targets: Record<string, Record<string, unknown>> = {
  signed: { headers: { Authorization: `Bearer \${HOOK_TOKEN}` }, signing_secret: `\${HOOK_KEY}` },
  asked: { events: ['task.input_required'] },
  flaky: { retry: 9 },
  picky: { retry: 2 },
  outage: { retry: 1 },
  agents: { ordering: 'agent', retry: 100 },
  'away-agents': { ordering: 'agent', retry: 0 },
  hanging: {},
  dripping: {},
  down: {},
  quick: {},
  copies: {},
  restarted: { retry: 1 },
  moving: { retry: 0 },
  skipped: { retry: 0, on_exhausted: 'hold', backoff_ms: 60_000 },
}

/** `environment` names the engines of a platform of its own; `closed` ends them. */
export function describeCourier(
  driver: string,
  environment: () => Promise<{ env: Record<string, string>; closed(): Promise<void> }>,
): void {
  let world: CourierPlatform
  let closed: () => Promise<void> = async () => {}
  const sinks = new Map<string, WebhookSink>()
  const entries: Record<string, { url: string } & Record<string, unknown>> = {}
  let changes = 0

  beforeAll(async () => {
    for (const [name, entry] of Object.entries(targets)) {
      const sink = await openWebhookSink()
      sinks.set(name, sink)
      entries[name] = { url: sink.url, backoff_ms: 1, ...entry }
    }
    const engines = await environment()
    closed = engines.closed
    const env = { HOOK_TOKEN: 'token-of-the-hook', HOOK_KEY: signingSecret, WEBHOOK_UNKNOWN_TARGET_S: '3' }
    world = await openCourierPlatform({ env: { ...env, ...engines.env }, targets: entries })
  }, 180_000)
  afterAll(async () => {
    await world?.close()
    for (const sink of sinks.values()) await sink.close()
    await closed()
  })

  /** The sink of a target that exists from the start. */
  function sinkOf(name: string, answer: WebhookSink['answer'] = () => ({})): WebhookSink {
    const sink = sinks.get(name)!
    sink.answer = answer
    return sink
  }
  /** The target has a new address, in force. */
  async function moved(name: string): Promise<WebhookSink> {
    const sink = await openWebhookSink()
    onTestFinished(() => sink.close())
    entries[name] = { ...targets[name], url: sink.url, backoff_ms: 1 }
    await put()
    return sink
  }
  async function put(): Promise<void> {
    world.targets(entries)
    await takenUp(world, ++changes)
  }
  const lettersOf = async (name: string) =>
    (await world.deadLetters()).filter(({ recordKey }) => recordKey === name)
  const arrived = (sink: WebhookSink, count: number) =>
    eventually(`${count} arrived`, () => sink.firstSuccesses().length === count, patienceMs)
  const many = (count: number) => Array.from({ length: count }, () => ({}))

  describe(`a delivery on the ${driver} log`, () => {
    test('carries the body as it is, the platform’s headers, the target’s own, and a signature', async () => {
      const sink = sinkOf('signed')
      const sequences = await world.fire('signed', [{ task_id: 'one' }, { task_id: 'two' }])
      await arrived(sink, 2)
      const [first, second] = sink.received as [WebhookSink['received'][0], WebhookSink['received'][0]]
      expect(first.headers).toMatchObject({
        authorization: 'Bearer token-of-the-hook',
        'content-type': 'application/json',
        'x-idempotency-key': 'WHALE-one-task.completed',
        'x-sequence': String(sequences[0]),
        'x-attempt': '1',
      })
      expect(first.headers).not.toHaveProperty('x-previous-sequence')
      expect(first.headers).not.toHaveProperty('x-webhook-replay')
      // Only tracing sends one.
      expect(first.headers).not.toHaveProperty('traceparent')
      expect(second.previous).toBe(first.sequence)
      expect(JSON.parse(first.body.toString())).toMatchObject({ task_id: 'one', agent: 'WHALE' })
      const { id } = verifyWebhook(first.headers, first.body, { secrets: [signingSecret] })
      expect(id).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/)
      expect(first.connection).toBe(second.connection)
    })

    test('may be a question back of a run, for a target that lists it', async () => {
      const sink = sinkOf('asked')
      await world.fire('asked', [{ event: 'task.input_required', task_id: 'run_1.2' }])
      await arrived(sink, 1)
      expect(sink.received[0]!.headers['x-idempotency-key']).toBe('WHALE-run_1.2-task.input_required')
      expect(JSON.parse(sink.received[0]!.body.toString())).toMatchObject({ event: 'task.input_required' })
    })

    test('is retried in its place until it succeeds: nothing overtakes it', async () => {
      const sink = sinkOf('flaky', ({ sequence, attempt }) =>
        sequence % 3 === 1 && attempt < 4 ? { status: 500 } : {},
      )
      const sequences = await world.fire(
        'flaky',
        Array.from({ length: 30 }, () => ({})),
      )
      await arrived(sink, 30)
      expect(sink.firstSuccesses()).toEqual(sequences)
      expect(sink.received.map(({ sequence }) => sequence)).toEqual(
        sink.received.map(({ sequence }) => sequence).toSorted((a, b) => a - b),
      )
      expect(sink.inFlightMax).toBe(1)
      expect(sink.received.filter(({ sequence }) => sequence === 1).map(({ attempt }) => attempt)).toEqual([
        1, 2, 3, 4,
      ])
      for (const { sequence, previous } of sink.received)
        expect(previous).toBe(sequence === 0 ? null : sequence - 1)
      expect(await lettersOf('flaky')).toEqual([])
    })

    test('that the target refuses, or that is poison, goes to the dead letters; the next one goes on', async () => {
      const sink = sinkOf('picky', ({ sequence }) =>
        sequence === 1 ? { status: 404 } : sequence === 3 ? { status: 500 } : {},
      )
      await world.fire('picky', [{}, {}, {}, {}, {}])
      await arrived(sink, 3)
      expect(sink.firstSuccesses()).toEqual([0, 2, 4])
      expect(sink.received.filter(({ sequence }) => sequence === 3)).toHaveLength(3)
      expect(sink.received.at(-1)!.previous).toBe(3)
      expect(await eventually('they are parked', () => lettersOf('picky'))).toMatchObject([
        { offset: 1, reason: 'http_404' },
        { offset: 3, reason: 'http_500' },
      ])
    })

    test('waits while its target is away, whatever is tried, and goes on in order', async () => {
      let away = true
      const sink = sinkOf('outage', ({ attempt }) => (away ? { status: attempt % 2 ? 503 : 502 } : {}))
      const sequences = await world.fire('outage', [{}, {}, {}])
      await eventually('it was tried again and again', () => sink.received.length >= 4)
      expect(new Set(sink.received.map(({ sequence }) => sequence))).toEqual(new Set([0]))
      away = false
      await arrived(sink, 3)
      expect(sink.firstSuccesses()).toEqual(sequences)
      expect(await lettersOf('outage')).toEqual([])
      const reported = await eventually('it is reported', async () => {
        const attempts = (await world.attempts()).filter((one) => one.target === 'outage')
        return attempts.filter(({ kind }) => kind === 'success').length === 3 ? attempts : null
      })
      expect(reported.filter(({ kind }) => kind === 'state').map(({ breaker }) => breaker)).toEqual([
        'open',
        'closed',
      ])
    })
  })

  describe(`ordering by agent on the ${driver} log`, () => {
    test('holds up one agent alone for its poison, and keeps the order of each', async () => {
      let others = 0
      const sink = sinkOf('agents', (request) => {
        if (agentOf(request) !== 'CIPHER') others++
        else if (others < 40) return { status: 500 }
        return { afterMs: 2 }
      })
      const events = Array.from({ length: 60 }, (_, n) => ({ agent: ['CIPHER', 'ATLAS', 'NEXUS'][n % 3]! }))
      await world.fire('agents', events)
      await arrived(sink, 60)
      for (const agent of ['CIPHER', 'ATLAS', 'NEXUS']) {
        const good = sink.received.filter((one) => agentOf(one) === agent && one.status === 204)
        const sequences = good.map(({ sequence }) => sequence)
        expect(sequences).toEqual(sequences.toSorted((a, b) => a - b))
        expect(good.map(({ previous }) => previous)).toEqual([null, ...sequences.slice(0, -1)])
      }
      expect(sink.inFlightMax).toBeGreaterThan(1)
    })

    test('lets one agent alone try a target that is away, and opens one call when it is back', async () => {
      let away = true
      const sink = sinkOf('away-agents', (): Answer => (away ? { status: 503, afterMs: 5 } : { afterMs: 20 }))
      await world.fire(
        'away-agents',
        Array.from({ length: 40 }, (_, n) => ({ agent: `agent-${n % 20}` })),
      )
      await eventually('it is found away', () => sink.received.length >= 8, patienceMs)
      const before = sink.received.length
      await eventually('it is tried on', () => sink.received.length >= before + 2, patienceMs)
      expect(new Set(sink.received.slice(before).map(agentOf)).size).toBe(1)
      sink.forget()
      away = false
      await arrived(sink, 40)
      expect(sink.received.slice(0, 1).map(({ connection }) => connection)).toHaveLength(1)
      expect(sink.received[1]!.at - sink.received[0]!.at).toBeGreaterThan(15)
      expect(await lettersOf('away-agents')).toEqual([])
    })
  })

  describe(`a courier on the ${driver} log`, () => {
    test('keeps targets apart: one that hangs, one that is down and one that drips delay no other', async () => {
      const hanging = sinkOf('hanging', () => ({ hang: true }))
      const dripping = sinkOf('dripping', () => ({ dripMs: 50 }))
      const down = sinkOf('down')
      const quick = sinkOf('quick')
      await down.down()
      for (const name of ['hanging', 'dripping', 'down']) await world.fire(name, many(20))
      const busy = () => hanging.inFlight === 1 && dripping.inFlight === 1
      await eventually('both calls run', busy, patienceMs)
      const calls = hanging.received.length
      await world.fire('quick', many(30))
      await arrived(quick, 30)
      // Not even one call of five seconds went by, or its retry.
      expect(hanging.received.length - calls).toBeLessThanOrEqual(1)
      expect([hanging.inFlightMax, dripping.inFlightMax]).toEqual([1, 1])
      expect(dripping.firstSuccesses()).toEqual([])
      for (const name of ['hanging', 'dripping', 'down']) delete entries[name]
      await put()
    })

    test('drops second copies of an event, and sends replays under their old sequence', async () => {
      const sink = sinkOf('copies')
      await world.fire('copies', [{ eventId: 'same' }, { eventId: 'other' }, { eventId: 'same' }])
      await world.fire('copies', [{ replay: true, sequence: 0 }, {}])
      await eventually('all came', () => sink.received.length === 4, patienceMs)
      expect(sink.received.map(({ sequence, replay, previous }) => [sequence, replay, previous])).toEqual([
        [0, false, null],
        [1, false, 0],
        [0, true, null],
        [4, false, 1],
      ])
    })

    test('goes on after a restart with the attempts that were counted and the sequence before', async () => {
      let away = true
      const sink = sinkOf('restarted', ({ sequence }) => (away && sequence === 2 ? { status: 503 } : {}))
      await world.fire('restarted', many(5))
      await eventually(
        'it was tried',
        () => sink.received.filter((one) => one.sequence === 2).length >= 3,
        patienceMs,
      )
      const attempts = sink.received.at(-1)!.attempt
      await world.restart()
      changes = world.lines.filter((line) => line.msg === 'webhooks.targets-taken-up').length
      await eventually('it is tried again', () => sink.received.at(-1)!.attempt > attempts, patienceMs)
      expect(sink.received.at(-1)).toMatchObject({ sequence: 2, previous: 1 })
      away = false
      await arrived(sink, 5)
      expect(sink.firstSuccesses()).toEqual([0, 1, 2, 3, 4])
      const counted = sink.received.filter(({ sequence }) => sequence === 2).map(({ attempt }) => attempt)
      expect(counted).toEqual(counted.toSorted((a, b) => a - b))
      expect(new Set(counted).size).toBe(counted.length)
      expect(await lettersOf('restarted')).toEqual([])
    })

    test('sends pending events to a new address; those of a removed target wait, and expire', async () => {
      const old = sinkOf('moving', () => ({ status: 503 }))
      const sequences = await world.fire('moving', many(3))
      await eventually('it waits', () => old.received.length >= 2, patienceMs)
      const sink = await moved('moving')
      await arrived(sink, 3)
      expect(sink.firstSuccesses()).toEqual(sequences)
      delete entries.moving
      await put()
      await world.fire('moving', many(2))
      const back = await moved('moving')
      await arrived(back, 2)
      delete entries.moving
      await put()
      const gone = await world.fire('moving', many(2))
      const letters = await eventually(
        'both are parked',
        async () => {
          const found = await lettersOf('moving')
          return found.length === 2 ? found : null
        },
        patienceMs,
      )
      expect(letters.map(({ offset, reason }) => [offset, reason])).toEqual(
        gone.map((offset) => [offset, 'target_removed']),
      )
    })

    test('parks a head that an operator gave up, within seconds, and goes on', async () => {
      const sink = sinkOf('skipped', ({ sequence }) => (sequence === 1 ? { status: 500 } : {}))
      await world.fire('skipped', many(3))
      await eventually('the head waits', () => sink.received.some((one) => one.sequence === 1), patienceMs)
      const { relational } = world.platform.engines
      await relational.query('update platform.webhook_targets set skip_through = 1 where name = $1', [
        'skipped',
      ])
      await arrived(sink, 2)
      expect(sink.received.at(-1)).toMatchObject({ sequence: 2, previous: 1 })
      expect(await lettersOf('skipped')).toMatchObject([{ offset: 1, reason: 'skipped' }])
      expect(sink.received.filter(({ sequence }) => sequence === 1)).toHaveLength(1)
    })
  })
}

function agentOf({ body }: Received): string {
  return (JSON.parse(body.toString()) as { agent: string }).agent
}
