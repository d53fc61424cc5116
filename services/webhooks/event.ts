/** What a webhook event is: its kinds, its fields as they are fired, and the key by which receivers know a repeat. */

import { type Static, Type } from 'typebox'

/** Kinds that anybody on the machine may fire. */
export const firedEvents = ['task.completed', 'task.failed', 'agent.spawned', 'agent.terminated'] as const

/** Kinds that the platform alone fires; a target gets one only where its list names it. */
export const platformEvents = ['task.input_required'] as const

/** Kinds that a target may list. */
export const webhookEvents = [...firedEvents, ...platformEvents] as const

export function isPlatformEvent(kind: unknown): boolean {
  return (platformEvents as readonly unknown[]).includes(kind)
}

/** `agent` and `task_id`: they travel in a header as parts of the idempotency key. */
const eventPartPattern = '^[\\x21-\\x7e]{1,128}$'
export const eventPart = new RegExp(eventPartPattern)

/** `<agent>-<task_id>-<event>`. Not unique by itself: its parts may hold hyphens. */
export function idempotencyKeyOf(event: { agent: string; task_id: string; event: string }): string {
  return `${event.agent}-${event.task_id}-${event.event}`
}

/** Year 5138: a time in milliseconds is refused instead of delivered as nonsense. */
const secondsMax = 99_999_999_999

const part = (description: string, examples: string[]) =>
  Type.String({
    pattern: eventPartPattern,
    rule: '1 to 128 visible ASCII characters',
    description: `1 to 128 visible ASCII characters. ${description}`,
    examples,
  })

const fields = {
  agent: part('Who it happened to, for example a codename.', ['WHALE']),
  task_id: part(
    'Of agent.spawned and agent.terminated: an id of this occurrence, for example a ULID; a constant would make every later one look like a repeat.',
    ['01K5Z6M0V3T4E8Q2Y7C9D1F2G3'],
  ),
  result: Type.Unknown({
    description: 'Any JSON; it must hold no secrets.',
    examples: [{ summary: 'done' }],
  }),
  ts: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: secondsMax,
      description: 'Unix time in seconds, by the caller’s clock; the relay sets it when it is left out.',
      examples: [1_767_225_600],
    }),
  ),
  idempotency_key: Type.Optional(
    Type.String({ description: '`<agent>-<task_id>-<event>` of this event; made when it is left out.' }),
  ),
}

const schemaOf = (kinds: readonly string[]) =>
  Type.Object(
    { event: Type.Enum([...kinds], { type: 'string', description: 'What happened.' }), ...fields },
    { additionalProperties: false, title: 'WebhookEvent' },
  )

/** An event as it is fired from outside. */
export const eventSchema = schemaOf(firedEvents)
/** With the kinds of the platform. */
export const anyEventSchema = schemaOf(webhookEvents)

export type FiredEvent = Static<typeof eventSchema>
