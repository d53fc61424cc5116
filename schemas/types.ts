// Made from the .avsc files by `npm run schemas:types`: do not edit.

export interface VectorUpsert {
  vector: Buffer
  payload: string
}

export interface VectorsProgress {
  index: string
  generation: number
  partition: number
  epoch: number
  applied_through: number
  failures: number
}

export interface AuditEvent {
  event_id: string
  phase: 'begun' | 'ended' | 'summary'
  agent_id: string
  operation: string
  collection: string | null
  outcome: string
  status_code: number | null
  took_ms: number | null
  request_id: string
  count: number
  occurred_at: number
}

export interface AgentChange {
  uid: string
  agent_id: string
  change: 'provisioned' | 'rotated' | 'deleted' | 'tier' | 'access' | 'quota' | 'unknown'
  name: string
  role: string
  access: string
  tier: string
  quota: number | null
  public_key_fingerprint: string
  version: number
  occurred_at: number
}

export interface DeadLetter {
  topic: string
  partition: number
  offset: number
  consumer_group: string
  key: Buffer | null
  value: Buffer | null
  headers: Record<string, string>
  reason: string
  attempts: number
  parked_at: number
}

export interface Schemas {
  'vector-upsert': VectorUpsert
  'vectors-progress': VectorsProgress
  'audit-event': AuditEvent
  'agent-change': AgentChange
  'dead-letter': DeadLetter
}
