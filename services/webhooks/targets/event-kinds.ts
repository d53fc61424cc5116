/** What webhook events are called and what their parts may hold. */

export const webhookEvents = ['task.completed', 'task.failed', 'agent.spawned', 'agent.terminated'] as const

export type WebhookEventKind = (typeof webhookEvents)[number]

/** `agent` and `task_id`: they travel in a header as parts of the idempotency key. */
export const eventPartPattern = '^[\\x21-\\x7e]{1,128}$'
export const eventPart = new RegExp(eventPartPattern)

export function isWebhookEvent(text: string): text is WebhookEventKind {
  return (webhookEvents as readonly string[]).includes(text)
}

/** `<agent>-<task_id>-<event>`. Not unique by itself: its parts may hold hyphens. */
export function idempotencyKeyOf(event: { agent: string; task_id: string; event: string }): string {
  return `${event.agent}-${event.task_id}-${event.event}`
}
