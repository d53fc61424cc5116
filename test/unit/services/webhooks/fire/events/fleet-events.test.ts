/** Events of the platform itself become deliveries. */

import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import type { Message, OutgoingMessage, Publisher } from '#runtime/publish/messages.ts'
import type { FleetEvent, WebhookDelivery } from '#schemas/types.ts'
import { createDeliveries, createFleetHandler } from '#services/webhooks/fire/events/deliveries.ts'
import { parseTargets, type WebhookTarget } from '#services/webhooks/targets/targets-file.ts'

type DeliveryMessage = OutgoingMessage<string, WebhookDelivery>

const target = (name: string): [string, WebhookTarget] => [
  name,
  { name, events: null, agents: null } as WebhookTarget,
]
const current = () => ({
  targets: new Map([target('a'), target('b')]),
  secrets: ['secret-token'],
  version: '1',
})

const message = (offset: number, change: Partial<FleetEvent> = {}): Message<FleetEvent> => ({
  key: 'W',
  partition: 3,
  offset,
  timestamp: 1_000,
  headers: { 'event-id': `e${offset}`, 'request-id': 'r1', producer: 'someone', agent: 'W' },
  value: {
    event: 'task.completed',
    agent: 'W',
    task_id: `t${offset}`,
    result: '{"n":1.0}',
    ts: 5,
    ...change,
  },
})

function handlerOn(publish: (messages: DeliveryMessage[], partition: number) => void) {
  const publisher = {
    async publish(_topic: object, messages: DeliveryMessage[], { partition }: { partition: number }) {
      publish(messages, partition)
      return messages.map((_, offset) => ({ partition, offset }))
    },
  }
  // Its method is generic, which a fake cannot be.
  const deliveries = createDeliveries(publisher as unknown as Publisher, {
    partitionOf: async (name) => (name === 'a' ? 0 : 7),
  })
  return createFleetHandler({ targets: { current }, deliveries })
}

test('a batch goes to each target in one publish, in order; a repeat of it has the same event ids', async () => {
  const published: { keys: string[]; ids: (string | undefined)[]; partition: number }[] = []
  const handle = handlerOn((messages, partition) => {
    published.push({
      keys: messages.map(({ key }) => key),
      ids: messages.map(({ eventId }) => eventId),
      partition,
    })
  })
  const batch = [message(1), message(2, { event: 'nonsense' }), message(3)]
  expect((await handle(batch)).map(({ kind }) => kind)).toEqual(['done', 'park', 'done'])
  await handle(batch)
  const [a, b, againA, againB] = published
  expect([a!.keys, a!.partition, b!.keys, b!.partition]).toEqual([['a', 'a'], 0, ['b', 'b'], 7])
  expect([againA, againB]).toEqual([a, b])
  expect(new Set([...a!.ids, ...b!.ids]).size).toBe(4)
})

test('a question back goes to targets that list it, and to no other', async () => {
  const entry = 'url: https://a.example/hook'
  const text = `targets: {all: {${entry}}, asked: {${entry}, events: [task.input_required]}, done: {${entry}, events: [task.completed]}}`
  const { targets } = parseTargets(text, {}, 'targets.yaml')
  const seen: DeliveryMessage[] = []
  const publisher = {
    async publish(_topic: object, messages: DeliveryMessage[], { partition }: { partition: number }) {
      seen.push(...messages)
      return messages.map((_, offset) => ({ partition, offset }))
    },
  }
  const deliveries = createDeliveries(publisher as unknown as Publisher, { partitionOf: async () => 0 })
  const handle = createFleetHandler({ targets: { current: () => ({ ...current(), targets }) }, deliveries })
  const result = '{"run_id":"run_1","question":{"text":"May I?"},"session":"s"}'
  const question = message(1, { event: 'task.input_required', task_id: 'run_1.2', result })
  expect((await handle([question])).map(({ kind }) => kind)).toEqual(['done'])
  expect(seen.map(({ key, value }) => `${key} ${value!.idempotency_key}`)).toEqual([
    'asked W-run_1.2-task.input_required',
  ])
  expect(JSON.parse(seen[0]!.value!.body.toString())).toMatchObject({ result: JSON.parse(result) })
})

test('a delivery carries the request id of its fleet event, its receipt and its result as they were', async () => {
  const seen: DeliveryMessage[] = []
  const handle = handlerOn((messages) => seen.push(...messages))
  await handle([message(1)])
  expect(seen[0]!.headers).toEqual({ 'request-id': 'r1', agent: 'W' })
  expect(seen[0]!.value!.received_at).toBe(1_000)
  expect(seen[0]!.value!.body.toString()).toContain(
    '"result":{"n":1.0},"idempotency_key":"W-t1-task.completed"',
  )
})

test('what a repetition cannot help is parked, with a reason that holds no secret', async () => {
  const handle = handlerOn(() => {})
  const outcomes = await handle([
    { ...message(1), value: null },
    message(2, { result: 'secret-token' }),
    message(3, { result: '"secret-token"' }),
    message(4, { agent: 'a b' }),
    message(5, { result: '1}, "agent": "X"' }),
  ])
  const reasons = outcomes.map((outcome) => (outcome.kind === 'park' ? outcome.reason : outcome.kind))
  expect(reasons.map((reason) => reason.split(':')[0])).toEqual([
    'the event has no value',
    'invalid_json',
    'secret_in_payload',
    'validation_failed',
    'invalid_json',
  ])
  expect(reasons.join()).not.toContain('secret-token')
})

test('with the log away the batch waits, and parked records stay parked', async () => {
  let away = true
  const handle = handlerOn((_, partition) => {
    if (away && partition === 7) throw new AppError('log_unavailable', 'away')
  })
  const batch = [message(1, { ts: -1 }), message(2)]
  expect((await handle(batch)).map(({ kind }) => kind)).toEqual(['park', 'unavailable'])
  away = false
  expect((await handle(batch)).map(({ kind }) => kind)).toEqual(['park', 'done'])
})
