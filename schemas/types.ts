// Made from the .avsc files by `npm run schemas:types`: do not edit.

/** The newest state of an agent and what changed; caches drop the agent's keys. */
export interface AgentChange {
  uid: string
  agent_id: string
  change: 'provisioned' | 'rotated' | 'deleted' | 'tier' | 'access' | 'quota' | 'unknown'
  name: string
  role: string
  access: string
  tier: string
  /** operations a day, null for the tier's own */
  quota: number | null
  public_key_fingerprint: string
  version: number
  occurred_at: number
}

/** A handshake or vector operation. The end repeats the fields of the beginning under the same event id. */
export interface AuditEvent {
  /** UUIDv7; the note is audit-<event_id> */
  event_id: string
  phase: 'begun' | 'ended' | 'summary'
  agent_id: string
  operation: string
  collection: string | null
  /** unknown until the end is known; then ok, or a problem code */
  outcome: string
  status_code: number | null
  took_ms: number | null
  request_id: string
  /** requests that a summary stands for */
  count: number
  occurred_at: number
}

/** A record that a consumer group gave up on, as it was, with the reason. */
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

/** One point to be written. The record's key names the collection and the point id; a null value deletes the point. */
export interface VectorUpsert {
  /** float32, little-endian, 4 bytes a component */
  vector: Buffer
  /** a JSON object, as it was sent */
  payload: string
}

/** How far one generation of an index has applied one partition of vectors.commands. */
export interface VectorsProgress {
  index: string
  generation: number
  partition: number
  /** epoch of vectors.commands */
  epoch: number
  /** last offset that is applied, -1 before the first */
  applied_through: number
  /** records of this partition that failed so far */
  failures: number
}

export interface Schemas {
  'agent-change': AgentChange
  'audit-event': AuditEvent
  'dead-letter': DeadLetter
  'vector-upsert': VectorUpsert
  'vectors-progress': VectorsProgress
}
