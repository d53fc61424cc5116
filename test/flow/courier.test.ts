/** The courier on the embedded log: headers, order, retries, poison, outage, and what it does about faulty receivers. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { verifyWebhook } from '#client/webhook-signature.ts'
import { type CourierPlatform, openCourierPlatform, takenUp } from '#test/support/courier-platform.ts'
import { eventually } from '#test/support/eventually.ts'
import { openWebhookSink, type WebhookSink } from '#test/support/webhook-sink.ts'

let world: CourierPlatform

beforeAll(async () => {
  world = await openCourierPlatform({ env: { HOOK_TOKEN: 'token-of-the-hook', HOOK_KEY: signingSecret } })
})
afterAll(() => world?.close())

const signingSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const entries: Record<string, { url: string } & Record<string, unknown>> = {}
let changes = 0

/** A new target of this name, in force. */
async function target(name: string, entry: Record<string, unknown>, answer?: WebhookSink['answer']) {
  const sink = await openWebhookSink(answer)
  onTestFinished(() => sink.close())
  entries[name] = { url: sink.url, backoff_ms: 1, ...entry }
  await put()
  return sink
}

async function put(): Promise<void> {
  world.targets(entries)
  await takenUp(world, ++changes)
}

const lettersOf = async (name: string) =>
  (await world.deadLetters()).filter(({ recordKey }) => recordKey === name)

describe('a delivery', () => {
  test('carries the body as it is, the platform’s headers, the target’s own, and a signature', async () => {
    const sink = await target('signed', {
      headers: { Authorization: `Bearer \${HOOK_TOKEN}` },
      signing_secret: `\${HOOK_KEY}`,
    })
    const sequences = await world.fire('signed', [{ task_id: 'one' }, { task_id: 'two' }])
    await eventually('both arrived', () => sink.firstSuccesses().length === 2)
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
    expect(second.previous).toBe(first.sequence)
    expect(JSON.parse(first.body.toString())).toMatchObject({ task_id: 'one', agent: 'WHALE' })
    const { id } = verifyWebhook(first.headers, first.body, { secrets: [signingSecret] })
    expect(id).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(first.connection).toBe(second.connection)
  })

  test('is retried in its place until it succeeds: nothing overtakes it', async () => {
    const sink = await target('flaky', { retry: 9 }, ({ sequence, attempt }) =>
      sequence % 3 === 1 && attempt < 4 ? { status: 500 } : {},
    )
    const sequences = await world.fire(
      'flaky',
      Array.from({ length: 30 }, () => ({})),
    )
    await eventually('all arrived', () => sink.firstSuccesses().length === 30)
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
    const sink = await target('picky', { retry: 2 }, ({ sequence }) =>
      sequence === 1 ? { status: 404 } : sequence === 3 ? { status: 500 } : {},
    )
    await world.fire('picky', [{}, {}, {}, {}, {}])
    await eventually('the good ones arrived', () => sink.firstSuccesses().length === 3)
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
    const sink = await target('outage', { retry: 1 }, ({ attempt }) =>
      away ? { status: attempt % 2 ? 503 : 502 } : {},
    )
    const sequences = await world.fire('outage', [{}, {}, {}])
    await eventually('it was tried again and again', () => sink.received.length >= 4)
    expect(new Set(sink.received.map(({ sequence }) => sequence))).toEqual(new Set([0]))
    away = false
    await eventually('all arrived', () => sink.firstSuccesses().length === 3)
    expect(sink.firstSuccesses()).toEqual(sequences)
    expect(await lettersOf('outage')).toEqual([])
    const told = await eventually('it is told', async () => {
      const attempts = (await world.attempts()).filter((one) => one.target === 'outage')
      return attempts.filter(({ kind }) => kind === 'success').length === 3 ? attempts : null
    })
    expect(told.filter(({ kind }) => kind === 'state').map(({ breaker }) => breaker)).toEqual([
      'open',
      'closed',
    ])
  })
})
