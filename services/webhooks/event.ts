/** What a webhook event is: its kinds, its fields as they are fired, and the key by which receivers know a repeat. */

import { type Static, Type } from 'typebox'

export const webhookEvents = ['task.completed', 'task.failed', 'agent.spawned', 'agent.terminated'] as const

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

export const eventSchema = Type.Object(
  {
    event: Type.Enum([...webhookEvents], { type: 'string', description: 'What happened.' }),
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
  },
  { additionalProperties: false, title: 'WebhookEvent' },
)

export type FiredEvent = Static<typeof eventSchema>
