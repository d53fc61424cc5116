/** The manifest of a fixture for upgrades: all that later versions must find in it. */

import type { JsonValue } from '#client/client.ts'

export type StackName = 'embedded' | 'distributed'

export interface FixturePoint {
  collection: string
  id: string
  /** Its vector is `seededVector(seed)`. */
  seed: number
  payload: { [key: string]: JsonValue }
}

export interface Manifest {
  made_by: { version: string; commit: string; node: string; at: string }
  /** As they were written last; the same in every stack. */
  points: FixturePoint[]
  deleted: { collection: string; id: string }[]
  stacks: Record<StackName, StackManifest>
}

export interface StackManifest {
  /** Output of `flotilla agents list`. */
  agents: FixtureAgent[]
  /** Private keys below the data directory; only those in force prove who an agent is. */
  keys: { agent_id: string; file: string; in_force: boolean }[]
  /** Ids of operations that were applied. */
  operations: string[]
  /** Notes of the hub; absent where the version had none. */
  notes?: { id: number; subject: string; status: string }[]
  goals?: { id: number; title: string; status: string }[]
  audit_notes: { id: string; payload: { [key: string]: JsonValue } }[]
  targets: FixtureTarget[]
  /** Output of `flotilla webhooks dead-letters list`. */
  webhook_dead_letters: FixtureWebhookLetter[]
  /** Output of `flotilla dead-letters list`, without the webhooks. */
  worker_dead_letters: FixtureLetter[]
  /** Output of `flotilla lag` at the end. */
  groups: FixtureGroup[]
  /** Only distributed: the registry's content, and roles that the database's rights name. */
  schemas: RegisteredSchema[]
  roles: string[]
}

export interface FixtureAgent {
  agent_id: string
  uid: string
  role: string
  access: string
  tier: string
  quota: number | null
  public_key_fingerprint: string
}

export interface FixtureTarget {
  target: string
  partition: number
  delivered: FixtureDelivery[]
  pending: FixtureDelivery[]
  /** Those that are among its dead letters. */
  parked: number[]
}

export interface FixtureDelivery {
  sequence: number
  agent: string
  task_id: string
}

export interface FixtureWebhookLetter {
  target: string
  sequence: number
  event: string
  agent: string
  task_id: string
}

export interface FixtureLetter {
  topic: string
  group: string
  recordKey: string
}

export interface FixtureGroup {
  group: string
  topic: string
  lag: number
  partitions: { partition: number; committed: number; start: number; end: number; lag: number }[]
}

export interface RegisteredSchema {
  id: number
  subject: string
  version: number
  schemaType: string
  schema: string
  /** The compatibility that is set for the subject, when there is one. */
  compatibility: string | null
}
