/** An audit event in, its note for fleet_notes out. */

import type { Payload } from '#engines/vectors/port.ts'
import type { AuditEvent } from '#schemas/types.ts'

/** Ids with this beginning are the platform's own. */
export const auditIdPrefix = 'audit-'

export interface AuditNote {
  id: string
  /** What is embedded. */
  text: string
  payload: Payload
}

/** The same event always gives the same note, so writing it twice changes nothing. */
export function noteOf(event: AuditEvent): AuditNote {
  const title = titleOf(event)
  const payload: Payload = {
    title,
    ...(event.collection === null ? {} : { collection: event.collection }),
    status: event.phase === 'begun' ? 'active' : 'resolved',
    tags: ['auth', 'vector', event.agent_id],
    updated_at: new Date(event.occurred_at).toISOString(),
    operation: event.operation,
    outcome: event.outcome,
    status_code: event.status_code,
    took_ms: event.took_ms,
    request_id: event.request_id,
  }
  if (event.phase === 'summary') payload.count = event.count
  return { id: `${auditIdPrefix}${event.event_id}`, text: title, payload }
}

function titleOf(event: AuditEvent): string {
  const where = event.collection === null ? '' : ` on ${event.collection}`
  const times = event.phase === 'summary' ? `${event.count} times ` : ''
  return `${event.operation}${where} by ${event.agent_id}: ${times}${event.outcome}`
}
