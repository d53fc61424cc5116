/** Each event is handled once and in order, whatever is repeated, late or missing. */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { WebhookEvent } from '../src/types.ts'
import { createReceiver, type Delivery, type Receiver } from '../src/webhook-receiver.ts'
import { createMemoryStore } from '../src/webhook-store.ts'
import { at, headersOf, secret } from './support/signature.ts'

interface Sent {
  agent?: string
  task: string
  sequence: number
  previous?: number | null
  replay?: boolean
}

function requestOf({ agent = 'ATLAS', task, sequence, previous = null, replay = false }: Sent) {
  const event: WebhookEvent = {
    event: 'task.completed',
    agent,
    task_id: task,
    result: {},
    ts: at,
    idempotency_key: `${agent}-${task}-task.completed`,
  }
  const body = JSON.stringify(event)
  const headers: Record<string, string> = {
    'x-idempotency-key': event.idempotency_key,
    'x-sequence': String(sequence),
    'x-attempt': '1',
    ...(previous === null ? {} : { 'x-previous-sequence': String(previous) }),
    ...(replay ? { 'x-webhook-replay': 'true' } : {}),
  }
  return { headers, body }
}

/** Sends in turn; what the handler was given, and every answer. */
async function sendAll(receiver: Receiver, all: Sent[]) {
  const handled: { task: string; delivery: Delivery }[] = []
  const answers = []
  for (const one of all) {
    const { headers, body } = requestOf(one)
    answers.push(
      await receiver.receive(headers, body, (event, delivery) => {
        handled.push({ task: event.task_id, delivery })
      }),
    )
  }
  return { handled, answers: answers.map((answer) => answer.what), full: answers }
}

describe('a receiver of webhooks', () => {
  it('handles two events that share an idempotency key', async () => {
    const receiver = createReceiver({ secrets: null })
    const { answers } = await sendAll(receiver, [
      { agent: 'build-2', task: '1', sequence: 1 },
      { agent: 'build', task: '2-1', sequence: 2 },
      { agent: 'build', task: '2-1', sequence: 3 },
    ])
    expect(answers).toEqual(['handled', 'handled', 'duplicate'])
  })

  it('asks for an event again while its own clock is wrong, and handles it then', async () => {
    let now = at * 1_000 + 600_000
    const receiver = createReceiver({ secrets: [secret], now: () => now })
    const { headers, body } = requestOf({ task: 'a', sequence: 1 })
    const signed = { ...headers, ...headersOf(body) }
    const refused = { what: 'refused', status: 503, reason: 'timestamp_out_of_tolerance' }
    expect(await receiver.receive(signed, body, () => {})).toMatchObject(refused)
    now -= 600_000
    expect(await receiver.receive(signed, body, () => {})).toMatchObject({ what: 'handled' })
  })

  it('verifies what it is given secrets for', async () => {
    const receiver = createReceiver({ secrets: [secret], now: () => at * 1_000 })
    const { headers, body } = requestOf({ task: 'a', sequence: 1 })
    const signed = { ...headers, ...headersOf(body) }
    const handled: string[] = []
    const handle = (event: WebhookEvent) => void handled.push(event.task_id)
    expect(await receiver.receive(signed, `${body} `, handle)).toMatchObject({ what: 'refused', status: 401 })
    expect(await receiver.receive(headers, body, handle)).toMatchObject({ what: 'refused', status: 400 })
    expect(await receiver.receive(signed, body, handle)).toMatchObject({ what: 'handled', status: 200 })
    expect(handled).toEqual(['a'])
    expect(() => createReceiver({ secrets: [] })).toThrow(TypeError)
  })

  it('handles a key once, and says which gap lies before an event', async () => {
    const { answers, handled } = await sendAll(createReceiver({ secrets: null }), [
      { task: 'a', sequence: 4, previous: 2 },
      { task: 'a', sequence: 4, previous: 2 },
      { task: 'c', sequence: 9, previous: 7 },
      { task: 'b', sequence: 7, previous: 9, replay: true },
      { task: 'b', sequence: 7, previous: 9, replay: true },
      { task: 'd', sequence: 10, previous: 9 },
    ])
    expect(answers).toEqual(['handled', 'duplicate', 'handled', 'handled', 'duplicate', 'handled'])
    expect(handled.map(({ task, delivery }) => [task, delivery.replay, delivery.gap])).toEqual([
      ['a', false, null],
      ['c', false, { after: 4, through: 7 }],
      ['b', true, null],
      ['d', false, null],
    ])
  })

  it('takes an event that was fired twice for one, and sees no gap in it', async () => {
    const { answers, full } = await sendAll(createReceiver({ secrets: null }), [
      { task: 'a', sequence: 1 },
      { task: 'a', sequence: 2, previous: 1 },
      { task: 'b', sequence: 3, previous: 2 },
    ])
    expect(answers).toEqual(['handled', 'duplicate', 'handled'])
    expect(full[2]).toMatchObject({ delivery: { gap: null } })
  })

  it('drops a late copy whose key it has forgotten', async () => {
    const receiver = createReceiver({ secrets: null, store: createMemoryStore({ keysMax: 1 }) })
    const { answers } = await sendAll(receiver, [
      { task: 'a', sequence: 1 },
      { task: 'b', sequence: 2, previous: 1 },
      { task: 'c', sequence: 3, previous: 2 },
      { task: 'b', sequence: 2, previous: 1 },
    ])
    expect(answers).toEqual(['handled', 'handled', 'handled', 'stale'])
  })

  it('begins again where a lane does: a low sequence without one before it', async () => {
    const { answers, full } = await sendAll(createReceiver({ secrets: null }), [
      { task: 'a', sequence: 500, previous: 499 },
      { task: 'b', sequence: 0 },
      { task: 'c', sequence: 1, previous: 0 },
      { task: 'd', sequence: 4, previous: 3 },
    ])
    expect(answers).toEqual(['handled', 'handled', 'handled', 'handled'])
    expect(full[3]).toMatchObject({ delivery: { gap: { after: 1, through: 3 } } })
  })

  it('learns nothing of a lane from a replay that comes first', async () => {
    const { answers, full } = await sendAll(createReceiver({ secrets: null }), [
      { task: 'a', sequence: 3, replay: true },
      { task: 'b', sequence: 50, previous: 49 },
    ])
    expect(answers).toEqual(['handled', 'handled'])
    expect(full[1]).toMatchObject({ delivery: { gap: null } })
  })

  it('keeps the lanes of agents apart', async () => {
    const receiver = createReceiver({ secrets: null, ordering: 'agent' })
    const { answers, handled } = await sendAll(receiver, [
      { agent: 'A', task: '1', sequence: 5 },
      { agent: 'B', task: '1', sequence: 3 },
      { agent: 'B', task: '2', sequence: 6, previous: 3 },
      { agent: 'A', task: '2', sequence: 8, previous: 7 },
    ])
    expect(answers).toEqual(['handled', 'handled', 'handled', 'handled'])
    expect(handled.map(({ delivery }) => delivery.gap)).toEqual([null, null, null, { after: 5, through: 7 }])
  })

  it('remembers nothing of a delivery whose handler failed', async () => {
    const receiver = createReceiver({ secrets: null })
    const { headers, body } = requestOf({ task: 'a', sequence: 1 })
    const fault = new Error('no disk')
    const failed = await receiver.receive(headers, body, () => Promise.reject(fault))
    expect(failed).toMatchObject({ what: 'failed', status: 500, error: fault })
    expect(await receiver.receive(headers, body, () => {})).toMatchObject({ what: 'handled' })
  })

  it('lets a repeated call wait for the first one, and takes it for the duplicate that it is', async () => {
    const receiver = createReceiver({ secrets: null })
    let finish = () => {}
    const slow = new Promise<void>((resolve) => {
      finish = resolve
    })
    const { headers, body } = requestOf({ task: 'a', sequence: 1 })
    let calls = 0
    const send = () =>
      receiver.receive(headers, body, () => {
        calls += 1
        return slow
      })
    const sent = Array.from({ length: 9 }, send)
    expect((await sent[8])?.what).toBe('busy')
    finish()
    const answers = (await Promise.all(sent)).map(({ what }) => what)
    expect(answers).toEqual(['handled', ...Array(7).fill('duplicate'), 'busy'])
    expect(calls).toBe(1)
    expect((await send()).what).toBe('duplicate')
  })

  it('refuses requests that are no delivery', async () => {
    const receiver = createReceiver({ secrets: null })
    const { headers, body } = requestOf({ task: 'a', sequence: 1 })
    const whatOf = async (changed: Record<string, string | undefined>, text = body) => {
      const received = await receiver.receive({ ...headers, ...changed }, text, () => {})
      return received.what === 'refused' ? received.reason : received.what
    }
    expect(await whatOf({ 'x-sequence': undefined })).toBe('missing_header')
    expect(await whatOf({ 'x-sequence': '-1' })).toBe('invalid_header')
    expect(await whatOf({ 'x-sequence': '99999999999999999' })).toBe('invalid_header')
    expect(await whatOf({ 'x-previous-sequence': 'x' })).toBe('invalid_header')
    expect(await whatOf({ 'x-idempotency-key': 'ATLAS-b-task.completed' })).toBe('invalid_header')
    for (const text of ['', '{', 'null', '[]', '7', '{"agent":1}']) {
      expect(await whatOf({}, text)).toBe('invalid_body')
    }
  })

  it('handles each event once and in order, and sees every gap, whatever a sender repeats or parks', async () => {
    const fate = fc.record({
      copies: fc.integer({ min: 1, max: 3 }),
      parked: fc.boolean(),
      step: fc.integer({ min: 1, max: 3 }),
      firedAgain: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(fate, { maxLength: 30 }), async (fates) => {
        const { sent, delivered, parked } = courierOf(fates)
        const { handled } = await sendAll(createReceiver({ secrets: null }), sent)
        const inOrder = handled.filter(({ delivery }) => !delivery.replay)
        expect(inOrder.map(({ task }) => task)).toEqual(delivered.map(({ task }) => task))
        expect(handled.filter(({ delivery }) => delivery.replay).map(({ task }) => task)).toEqual(parked)
        const gaps = inOrder.map(({ delivery }) => delivery.gap?.through ?? null)
        expect(gaps).toEqual(delivered.map(({ gapThrough }) => gapThrough))
      }),
    )
  })
})

interface Fate {
  copies: number
  parked: boolean
  step: number
  firedAgain: boolean
}

/** A courier's requests for events with these fates: in order, some repeated, some parked and replayed at the end. */
function courierOf(fates: Fate[]) {
  const sent: Sent[] = []
  const delivered: { task: string; gapThrough: number | null }[] = []
  const parked: Sent[] = []
  let sequence = 0
  let previous: number | null = null
  let parkedSince: number | null = null
  const deliver = (one: Sent, copies: number) => {
    for (let copy = 0; copy < copies; copy++) sent.push(one)
  }
  fates.forEach((fate, n) => {
    sequence += fate.step
    const one: Sent = { task: `t${n}`, sequence, previous }
    previous = sequence
    if (fate.parked) {
      parked.push(one)
      if (delivered.length > 0) parkedSince = sequence
      return
    }
    delivered.push({ task: one.task, gapThrough: parkedSince })
    parkedSince = null
    deliver(one, fate.copies)
    if (!fate.firedAgain) return
    sequence += 1
    deliver({ ...one, sequence, previous }, 1)
    previous = sequence
  })
  for (const one of parked) deliver({ ...one, previous, replay: true }, 2)
  return { sent, delivered, parked: parked.map(({ task }) => task) }
}
