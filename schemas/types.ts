// Made from the .avsc files by `npm run schemas:types`: do not edit.

/** Who did what to the platform, by the main API or the command line. It holds no secret. */
export interface AdminAction {
  actor_kind: 'agent' | 'person' | 'command_line' | 'unknown'
  /** uid of the agent or person; of a command line the user of the system */
  actor: string
  /** noun and verb: agent.provision */
  action: string
  target: string
  /** JSON */
  before: string | null
  /** JSON */
  after: string | null
  outcome: 'done' | 'refused' | 'failed' | 'unknown'
  /** the error code of what was refused or failed */
  reason: string | null
  request_id: string | null
  /** things that it changed, or tries that it sums up */
  count: number
  occurred_at: number
}

/** The newest state of an agent and what changed; caches drop the agent's keys. */
export interface AgentChange {
  uid: string
  agent_id: string
  change:
    | 'provisioned'
    | 'rotated'
    | 'deleted'
    | 'tier'
    | 'access'
    | 'quota'
    | 'unknown'
    | 'updated'
    | 'agent_key_revoked'
  name: string
  role: string
  access: string
  tier: string
  /** operations a day, null for the tier's own */
  quota: number | null
  /** operations a second, null for the tier's own */
  burst: number | null
  /** operations at once, null for the tier's own */
  concurrent: number | null
  public_key_fingerprint: string
  version: number
  occurred_at: number
  /** the agent key that was revoked */
  agent_key_id: string | null
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

/** The newest state of a collection: made, or deleted. */
export interface CollectionChange {
  name: string
  /** which making of the name: keys of vectors.commands begin with <name>~<making>/ */
  making: string
  change: 'created' | 'deleted' | 'unknown'
  description: string | null
  /** the agent, or the person by uid */
  created_by: string
  created_at: number
  deleted_at: number | null
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

/** A lifecycle event of the fleet: the relay fires it at every target whose lists match. */
export interface FleetEvent {
  /** task.completed, task.failed, agent.spawned or agent.terminated */
  event: string
  agent: string
  task_id: string
  /** JSON */
  result: string
  /** Unix time in seconds */
  ts: number
}

/** The newest state of a note or a goal. */
export interface HubRecord {
  kind: 'note' | 'goal' | 'unknown'
  id: number
  /** rises with every change of the note or goal */
  version: number
  author: string
  /** a note's subject or a goal's title */
  title: string
  /** a note's body or a goal's description */
  text: string
  priority: string
  status: string
  /** of a note */
  thread_id: string | null
  /** of a note that replies */
  parent_id: number | null
  created_at: number
  updated_at: number
}

/** The newest state of a person and what changed; caches drop what they know of the person. */
export interface PersonChange {
  uid: string
  change: 'added' | 'role' | 'removed' | 'password' | 'signed_out' | 'unknown'
  role: string
  version: number
  occurred_at: number
}

/** A run waits for its node, or is to be canceled. It only wakes the dispatchers: the row of the run is the truth. */
export interface RunCommand {
  command: 'start' | 'cancel' | 'unknown'
  run_id: string
  slug: string
}

/** An event of a run, or a change of its status or of its dispatch. The rows are the truth: a record may be missing, or come twice. */
export interface RunEventRecord {
  /** empty where only the dispatch changed */
  run_id: string
  /** empty where only the dispatch changed */
  root_run_id: string
  goal_id: number | null
  /** events of an attempt before the newest one are void */
  attempt: number
  /** within the root run; null for what is not stored: partial events */
  seq: number | null
  /** within the dispatch */
  goal_seq: number | null
  /** JSON */
  event: string | null
  /** where it changed */
  status: string | null
  /** no run of the tree is queued or running any more */
  tree_ended: boolean
  /** of the last durable event of the tree, where a run ended */
  last_seq: number | null
  /** of the dispatch, where it changed */
  goal_status: string | null
}

/** One point to be written. The record's key names the collection and the point id; a null value deletes the point. */
export interface VectorUpsert {
  /** float32, little-endian, 4 bytes a component */
  vector: Buffer
  /** a JSON object, as it was sent */
  payload: string
  /** what made the vector of payload.text, or of the note: the name of its space; null where a caller sent the vector */
  embedder: string | null
  /** of a collection of one's own: which making of its name the point belongs to, as in the key */
  making: string | null
  /** from then on no read shows the point, and a deletion follows; null for a point that stays */
  expires_at: number | null
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

/** What a courier saw: one attempt, or (kind `state`) how a target stands now, repeated while it has something waiting. */
export interface WebhookAttempt {
  target: string
  kind: 'success' | 'retry' | 'dead_letter' | 'state' | 'unknown'
  sequence: number | null
  attempt: number | null
  /** HTTP status; null without an answer */
  status: number | null
  /** a short code: connect, tls, reset, timeout, ... */
  fault: string | null
  took_ms: number | null
  /** closed or open */
  breaker: string
  /** records accepted and not yet delivered or parked */
  lag: number | null
  head_received_at: number | null
  next_attempt_at: number | null
  occurred_at: number
}

/** One event for one target. The offset of the record is the sequence, unless `sequence` names an earlier one. */
export interface WebhookDelivery {
  target: string
  event: string
  agent: string
  task_id: string
  idempotency_key: string
  /** ULID; the id that is signed */
  webhook_id: string
  /** the JSON text that the target receives */
  body: Buffer
  received_at: number
  /** of a replay: the sequence that it had */
  sequence: number | null
  replay: boolean
}

export interface Schemas {
  'admin-action': AdminAction
  'agent-change': AgentChange
  'audit-event': AuditEvent
  'collection-change': CollectionChange
  'dead-letter': DeadLetter
  'fleet-event': FleetEvent
  'hub-record': HubRecord
  'person-change': PersonChange
  'run-command': RunCommand
  'run-event': RunEventRecord
  'vector-upsert': VectorUpsert
  'vectors-progress': VectorsProgress
  'webhook-attempt': WebhookAttempt
  'webhook-delivery': WebhookDelivery
}
