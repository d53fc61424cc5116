/** Answers of the main API, as a client sees them. */

export type Role = 'admin' | 'member' | 'viewer'

export interface Me {
  uid: string
  kind: 'agent' | 'person'
  /** The agent id. */
  slug: string
  name: string
  role: Role
  /** The routes that it may call, as `METHOD /path`. */
  permissions: string[]
  /** People have these two. */
  email?: string
  must_change_password?: boolean
  /** null: unlimited. */
  limits: { burst: number | null; concurrent: number | null }
}

export interface BrainState {
  agents: {
    uid: string
    slug: string
    name: string
    role: string
    node: { status: string; last_seen: string | null } | null
  }[]
  /** Points of each collection. */
  collections: Record<string, number>
  /** By their status. */
  goals: Record<string, number>
  runs: Record<string, number>
  notes: number
  schedules: { active: number; paused: number }
  /** `last_status` is null where the last call had no answer, or there was none. */
  webhooks: Record<string, { lag: number; last_status: number | null }>
  log: { groups: Record<string, number> }
  as_of: string
}
