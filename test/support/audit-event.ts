/** An audit event of a search that has ended. */

import type { AuditEvent } from '#schemas/types.ts'

export function auditEvent(changes: Partial<AuditEvent> = {}): AuditEvent {
  return {
    event_id: '0199aaaa-0000-7000-8000-000000000001',
    phase: 'ended',
    agent_id: 'scout',
    operation: 'search',
    collection: 'posts',
    outcome: 'ok',
    status_code: 200,
    took_ms: 3.5,
    request_id: 'r-1',
    count: 1,
    occurred_at: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
    ...changes,
  }
}
