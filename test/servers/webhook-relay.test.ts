/** The relay, and the partitions of its targets, on Kafka, registry and Postgres: also two relays side by side. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { fleetEvents, webhooksAttempts, webhooksDeliveries } from '#topics/catalog.ts'
import { describeAssignment } from '../flow/webhook-assignment.promises.ts'
import { describeRelay } from '../flow/webhook-relay.promises.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'
import { eventually } from '../support/eventually.ts'
import { recordsOf } from '../support/log-reading.ts'
import { openRelayPlatform } from '../support/relay-platform.ts'

let servers: Stack
beforeAll(async () => {
  servers = await openStack()
})
afterAll(() => servers?.close())

async function environment() {
  await servers.clear()
  const { QDRANT_URL: _, ...env } = await servers.newEnvironment()
  return env
}

describeRelay('distributed', environment)
describeAssignment('distributed', environment)

test('two relays give one target one partition; each goes on alone, and fires every fleet event once', async () => {
  const env = await environment()
  const targets = Array.from({ length: 5 }, (_, n) => `  t${n}:\n    url: http://127.0.0.1:1/\n`).join('')
  const open = () => openRelayPlatform({ targets: `targets:\n${targets}`, env })
  const [a, b] = await Promise.all([open(), open()])
  let c: Awaited<ReturnType<typeof open>> | undefined
  try {
    // A busy machine may answer 503 for a moment: then the event is fired again, as its caller would.
    const fire = (relay: typeof a, n: number) =>
      eventually('an answer other than 503', async () => {
        const event = { event: 'task.completed', agent: 'W', task_id: `t${n}`, result: null, ts: 1 }
        const answer = await relay.fire(event)
        return answer.status === 503 ? null : answer
      })
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => fire(n % 2 === 0 ? a : b, n)))
    expect(answers.map(({ status }) => status)).toEqual(Array(40).fill(202))
    const records = await recordsOf(a.platform, webhooksDeliveries)
    expect(records.length).toBeGreaterThanOrEqual(200)
    const places = new Set(records.map(({ key, partition }) => `${key} ${partition}`))
    expect(places.size).toBe(5)
    for (const { json } of answers) {
      for (const { target, sequence } of json.deliveries as { target: string; sequence: number }[]) {
        const found = records.find(({ key, offset }) => key === target && offset === sequence)
        expect(found!.value!.idempotency_key).toBe(json.idempotency_key)
      }
    }
    // One relay leaves, a third comes: events fired meanwhile are taken by the present ones.
    const publish = (n: number) =>
      b.platform.publisher.publish(fleetEvents, [
        {
          key: `agent-${n}`,
          value: { event: 'agent.spawned', agent: `agent-${n}`, task_id: 'x', result: '{}', ts: 1 },
          eventId: `fleet-${n}`,
        },
      ])
    for (let n = 0; n < 20; n++) await publish(n)
    await a.close()
    expect((await fire(b, 41)).status).toBe(202)
    const attempt = {
      ...{
        target: 't0',
        kind: 'success' as const,
        sequence: 1,
        attempt: 1,
        status: 204,
        fault: null,
        took_ms: 5,
      },
      ...{
        breaker: 'closed',
        lag: null,
        head_received_at: null,
        next_attempt_at: null,
        occurred_at: Date.now(),
      },
    }
    await b.platform.publisher.publish(webhooksAttempts, [{ key: 't0', value: attempt }])
    c = await open()
    const late = c
    expect((await fire(late, 42)).status).toBe(202)
    await eventually('a new relay recalls what a target answered last', async () => {
      const { targets: all } = (await late.get('/health')).json as {
        targets: Record<string, { last_status: number }>
      }
      return all.t0!.last_status === 204
    })
    expect((await late.get('/metrics')).text).toContain(
      'webhook_delivered_total{target="t0",status="success"} 0',
    )
    for (let n = 20; n < 40; n++) await publish(n)
    const fired = await eventually(
      'every fleet event is fired',
      async () => {
        const all = (await recordsOf(b.platform, webhooksDeliveries)).filter(
          ({ value }) => value!.event === 'agent.spawned',
        )
        const ids = new Set(all.map(({ headers }) => headers['event-id']))
        return ids.size === 200 ? all : null
      },
      90_000,
    )
    // A repeat has the event id of the first: 40 events, five targets, nothing else.
    expect(new Set(fired.map(({ key, value }) => `${key} ${value!.agent}`)).size).toBe(200)
  } finally {
    await Promise.all([a.close(), b.close(), c?.close()])
  }
}, 240_000)
